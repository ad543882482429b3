// Overflow attribution by replay. A pass ends by an exception as soon as the observers have seen enough.
#include "train/numerics.h"

#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/tensor/finite.h"
#include "data/volume.h"
#include "train/json.h"

namespace tandem {
namespace {

constexpr std::string_view kCast = "cast", kInputImage = "the input image";

struct SeenEnough {};

// Names one tensor of a pass: which of the tensors with these names it was, in order of execution.
struct Place {
  std::string layer, op, tensor;
  int occurrence = 0;
};

class Finder {
 public:
  Finder(ParamStore& params, const Replay& replay) : params_(params), replay_(replay) {}

  std::optional<NonfiniteCause> find(std::span<const Batch> batches) {
    params_.zero_gradients();
    for (const Batch& batch : batches) {
      if (const auto element = first_nonfinite(batch.image)) {
        cause_ = NonfiniteCause{
            .place = std::string(kInputImage), .is_input = true, .op = "data", .tensor = "image"};
        describe(*element, batch.image.shape(), batch);
        return cause_;
      }
      if (run(batch, first_pass(batch))) {
        blame_weight();
        measure(batch);
        try_fp32(batch);
        return cause_;
      }
    }
    return std::nullopt;
  }

 private:
  // Whether the observers ended the pass.
  bool run(const Batch& batch, const ReplayRequest& request) {
    occurrences_.clear();
    last_output_ = {};
    first_layer_.clear();
    last_layer_.clear();
    try {
      replay_(batch, request);
    } catch (const SeenEnough&) {
      return true;
    }
    return false;
  }

  Place place_of(std::string_view op, const std::string& layer, std::string tensor) {
    Place place{layer, std::string(op), std::move(tensor)};
    place.occurrence = occurrences_[place.layer + '\n' + place.op + '\n' + place.tensor]++;
    return place;
  }

  std::string tensor_name(const GradientEvent& event) const {
    if (!event.is_leaf) return "input gradient";
    for (const ParamSegment& segment : params_.segments()) {
      const Tensor& flat = params_.region(segment.region).gradient;
      if (event.gradient.storage() == flat.storage() &&
          event.gradient.offset() == flat.offset() + segment.offset)
        return "gradient of " + segment.name;
    }
    return "leaf gradient";
  }

  ReplayRequest first_pass(const Batch& batch) {
    const auto look = [this, &batch](bool backward, Place place, const Tensor& tensor) {
      const auto element = first_nonfinite(tensor);
      if (!element) return;
      cause_ = NonfiniteCause{
          .in_backward = backward, .layer = place.layer, .op = place.op, .tensor = place.tensor};
      place_ = std::move(place);
      if (!backward) locate();
      describe(*element, tensor.shape(), batch);
      throw SeenEnough();
    };
    return {.ops =
                [this, look](std::string_view op, const std::string& layer, const Tensor& value) {
                  const bool is_cast = op == kCast && !last_output_.layer.empty();
                  if (first_layer_.empty()) first_layer_ = layer;
                  look(false, place_of(op, is_cast ? last_output_.layer : layer, "output"), value);
                  last_output_ = {layer, value};
                  if (!layer.empty()) last_layer_ = layer;
                },
            .gradients =
                [this, look](const GradientEvent& e) {
                  look(true, place_of(e.op, e.module, tensor_name(e)), e.gradient);
                }};
  }

  // Where in the forward pass the cause lies, beyond its layer.
  void locate() {
    cause_.is_input = cause_.op == kCast && !last_output_.value.defined();
    cause_.reads_input = !cause_.layer.empty() && cause_.layer == first_layer_;
    if (cause_.is_input)
      cause_.place = kInputImage;
    else if (cause_.layer.empty() && !last_layer_.empty())
      cause_.place = "after layer " + last_layer_;
  }

  void describe(const NonfiniteElement& element, const Shape& shape, const Batch& batch) {
    cause_.index = element.index;
    cause_shape_ = shape;
    cause_.value = cause_.magnitude = element.value;
    const bool names_sample =
        cause_.tensor == "image" || cause_.tensor == "output" || cause_.tensor == "input gradient";
    const auto samples = static_cast<std::int64_t>(batch.ids.size());
    cause_.samples.clear();
    for (std::int64_t n = 0; n < samples; ++n) {
      if (names_sample && shape.rank() > 1 && shape[0] == samples && n != element.index[0]) continue;
      const auto i = static_cast<std::size_t>(n);
      cause_.samples.push_back(fmt::format("{} from {}", batch.ids[i], to_string(batch.origins[i])));
    }
  }

  // An output that is not finite because a weight of its layer is not: the weight is the first.
  void blame_weight() {
    if (cause_.in_backward) return;
    for (const ParamSegment& segment : params_.segments()) {
      if (segment.name.substr(0, segment.name.rfind('.')) != cause_.layer) continue;
      const FlatRegion& flat = params_.region(segment.region);
      for (const Tensor& buffer : {flat.master, flat.copy}) {
        const Tensor weight = ParamStore::view(segment, buffer);
        const auto element = first_nonfinite(weight);
        if (!element) continue;
        cause_.tensor = segment.name;
        cause_.reads_input = false;
        cause_.index = element->index;
        cause_.value = element->value;
        cause_.magnitude = std::abs(value_at(ParamStore::view(segment, flat.master), element->index));
        return;
      }
    }
  }

  // What the value would have been without 16-bit rounding.
  void measure(const Batch& batch) {
    const bool is_weight = !cause_.in_backward && cause_.tensor != "output";
    if (is_weight || std::isnan(cause_.value)) return;
    if (cause_.is_input) {
      cause_.magnitude = std::abs(value_at(batch.image, cause_.index));
      return;
    }
    if (cause_.op == kCast && !cause_.in_backward) {  // in FP32 there is none
      if (last_output_.value.defined() && last_output_.value.shape() == cause_shape_)
        cause_.magnitude = std::abs(value_at(last_output_.value, cause_.index));
      return;
    }
    if (!cause_.in_backward) {
      run(batch,
          {.wide = true, .ops = [this](std::string_view op, const std::string& layer, const Tensor& value) {
             read(place_of(op, layer, "output"), value, 1);
           }});
      return;
    }
    // Gradients are linear in the seed; powers of two change no bits of a normal number.
    for (const double factor : {0x1p-12, 0x1p-24}) {
      params_.zero_gradients();
      run(batch, {.seed_factor = factor, .gradients = [this, factor](const GradientEvent& e) {
                    read(place_of(e.op, e.module, tensor_name(e)), e.gradient, 1 / factor);
                  }});
      if (std::isfinite(cause_.magnitude)) return;
    }
  }

  // Whether FP32 for the layer alone is enough: its output may be rounded to 16 bits again further on.
  void try_fp32(const Batch& batch) {
    const std::string name = cause_.layer + ".weight";
    const ParamSegment* weight = params_.find(name);
    if (source_of(cause_) != NonfiniteSource::kForward || cause_.op == kCast || weight == nullptr) return;
    if (!is_16_bit_float(params_.region(weight->region).copy.dtype())) return;
    bool lost = false;
    run(batch,
        {.fp32_weight = name, .ops = [&lost](std::string_view op, const std::string&, const Tensor& value) {
           if (!first_nonfinite(value)) return;
           lost = op == kCast;
           throw SeenEnough();
         }});
    cause_.fp32_cures = !lost;
  }

  void read(const Place& place, const Tensor& tensor, double factor) {
    if (place.layer != place_.layer || place.op != place_.op || place.tensor != place_.tensor ||
        place.occurrence != place_.occurrence)
      return;
    cause_.magnitude = std::abs(value_at(tensor, cause_.index)) * factor;
    throw SeenEnough();
  }

  struct Output {
    std::string layer;
    Tensor value;
  };

  ParamStore& params_;
  const Replay& replay_;
  Output last_output_;                    // of the pass; a cast belongs to the layer whose output it rounds
  std::string first_layer_, last_layer_;  // of the forward pass so far
  std::map<std::string, int> occurrences_;
  NonfiniteCause cause_;
  Shape cause_shape_;
  Place place_;
};

std::string index_text(const std::vector<std::int64_t>& index) {
  return to_string(Shape(std::span<const std::int64_t>(index)));
}

}  // namespace

std::optional<NonfiniteCause> find_nonfinite(std::span<const Batch> batches, ParamStore& params,
                                             const Replay& replay) {
  return Finder(params, replay).find(batches);
}

std::string to_text(const NonfiniteCause& c) {
  std::string text = c.in_backward ? "backward" : "forward";
  if (!c.layer.empty()) text += ", layer " + c.layer;
  if (!c.place.empty()) text += ", " + c.place;
  text += fmt::format(", op {}, {} at {} = {}", c.op, c.tensor, index_text(c.index), c.value);
  if (std::isfinite(c.magnitude)) text += fmt::format(" (|x| = {:.4g} without 16-bit rounding)", c.magnitude);
  std::string samples;
  for (const std::string& sample : c.samples) samples += (samples.empty() ? "" : ", ") + sample;
  return text + (c.samples.size() == 1 ? ", sample " : ", samples ") + samples;
}

NonfiniteSource source_of(const NonfiniteCause& c) {
  if (c.op == "data") return NonfiniteSource::kData;
  const bool is_weight = !c.in_backward && c.tensor != "output";
  if (!std::isfinite(c.magnitude)) return is_weight ? NonfiniteSource::kWeight : NonfiniteSource::kAnyFormat;
  if (c.is_input) return NonfiniteSource::kInput;
  return c.in_backward ? NonfiniteSource::kBackward : NonfiniteSource::kForward;
}

JsonObject to_json(const NonfiniteCause& c) {
  JsonObject object;
  object.add("pass", c.in_backward ? "backward" : "forward").add("layer", c.layer);
  if (!c.place.empty()) object.add("place", c.place);
  object.add("op", c.op);
  object.add("tensor", c.tensor).add("index", c.index).add("value", c.value).add("magnitude", c.magnitude);
  object.add("samples", c.samples);
  return object;
}

}  // namespace tandem
