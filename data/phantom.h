// A generated case that stands in for the real CT where there is no network: ellipsoid organs on noise, with
// the label numbers of the job ct-hip5. Not anatomy and not data of a patient: its case_id says "phantom".
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/volume.h"

namespace tandem {

struct Phantom {
  Volume image;        // Hounsfield-like whole numbers, 3 mm, RAS
  LabelVolume labels;  // left/right: hip 77/78, gluteus maximus 80/81, medius 82/83, iliopsoas 88/89,
                       // autochthon 86/87
};

// The grid of the CT of ct-hip5 (z, y, x), so that its regions x=0:61 and x=61:122 work unchanged.
inline constexpr Index3 kPhantomShape{112, 101, 122};

// Every organ lies once on each side of the middle of x; sizes, places and densities vary by some per cent
// with seed and side, so that one half is not the mirror image of the other. Same seed and shape, same bits.
// Axes >= 8.
Phantom make_phantom(const Index3& shape = kPhantomShape, std::uint64_t seed = 1);

// make_phantom as a case file with case_id "phantom-SEED".
void write_phantom_case(const std::filesystem::path& path, const Index3& shape, std::uint64_t seed);

}  // namespace tandem
