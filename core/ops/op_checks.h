// Shape and dtype checks that the ops share, with the texts users see. Not an op: those are in the other
// headers of this folder.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/autograd/tape.h"

namespace tandem {

// A named operand, for messages: {"weight", w}.
struct Operand {
  std::string_view name;
  const Var& var;
};

// All throw Error{kShape} "[op] ...".
// A float dtype, and packed: only concat's backward and weights of a flat buffer know pitches.
void require_float(std::string_view op, const Operand& x);
void require_same_dtype(std::string_view op, const Operand& x, const Operand& y);
void require_same_shape(std::string_view op, const Operand& x, const Operand& y);
// A parameter that stays in FP32 (F64 in the reference): [size]. `where` names what fixes the size.
void require_kept_vector(std::string_view op, const Operand& v, std::int64_t size, const Operand& where);
// Rank 3 to 5, [N, C, ([D, ]H, )W], with at least one voxel; extents below 2^31.
void require_volume(std::string_view op, const Operand& x);

using Triple = std::array<std::int64_t, 3>;
// The last `rank` values of an option, as "[1, 2, 2]".
std::string spatial_text(const Triple& values, int rank);
// The last `rank` values lie in low .. 2^20; the leading ones, which are not read, become low (1 for a
// stride, 0 for a padding).
Triple checked_option(std::string_view op, std::string_view name, Triple values, int rank, std::int64_t low);
// No extent above 2^31 - 1: products of options and extents stay inside 64 bits.
void require_extents(std::string_view op, const Operand& x);

// N, C and spatial sizes as a Shape: [N, C, (d, (h, ))w].
Shape volume_shape(std::int64_t batch, std::int64_t channels, const Triple& spatial, int spatial_rank);

}  // namespace tandem
