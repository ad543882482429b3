// Edit distance and the table of other words.
#include "core/config/nearest.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/config/errors.h"

namespace tandem {
namespace {

struct Alias {
  std::string_view word, meaning;
};
// Words of other frameworks, lower case; a meaning is a key or the end of a full key. Several rows for a
// word: the first that exists.
constexpr auto kAliases = std::to_array<Alias>({
    {"learning_rate", "lr"},
    {"base_lr", "lr"},
    {"lr0", "lr"},
    {"initial_lr", "lr"},
    {"decay", "weight_decay"},
    {"wd", "weight_decay"},
    {"l2", "weight_decay"},
    {"batch", "batch_size"},
    {"batchsize", "batch_size"},
    {"bs", "batch_size"},
    {"epoch", "epochs"},
    {"max_epochs", "epochs"},
    {"num_epochs", "epochs"},
    {"n_epochs", "epochs"},
    {"steps", "iterations"},
    {"max_steps", "iterations"},
    {"num_iterations", "iterations"},
    {"max_iterations", "iterations"},
    {"steps_per_epoch", "iterations_per_epoch"},
    {"amp", "precision.compute"},
    {"mixed_precision", "precision.compute"},
    {"dtype", "precision.compute"},
    {"dtype", "compute"},
    {"fp16", "precision.compute"},
    {"bf16", "precision.compute"},
    {"half", "precision.compute"},
    {"compute_dtype", "compute"},
    {"loss_scaler", "loss_scale"},
    {"grad_scaler", "loss_scale"},
    {"init_scale", "init"},
    {"initial_scale", "init"},
    {"scale_window", "growth_interval"},
    {"min_scale", "min"},
    {"max_scale", "max"},
    {"lr_scheduler", "schedule"},
    {"scheduler", "schedule"},
    {"lr_schedule", "schedule"},
    {"lr_policy", "schedule"},
    {"warmup_steps", "warmup"},
    {"warmup_iterations", "warmup"},
    {"optim", "optimizer"},
    {"optimiser", "optimizer"},
    {"solver", "optimizer"},
    {"betas", "beta1"},
    {"epsilon", "eps"},
    {"workers", "data.workers"},
    {"num_workers", "workers"},
    {"num_threads", "threads"},
    {"n_threads", "threads"},
    {"gpu", "device"},
    {"gpus", "device"},
    {"random_seed", "seed"},
    {"gradient_clip", "clip_norm"},
    {"grad_clip", "clip_norm"},
    {"gradient_clip_val", "clip_norm"},
    {"max_grad_norm", "clip_norm"},
    {"clip_grad_norm", "clip_norm"},
    {"clip_grad_value", "clip_value"},
    {"accumulate_grad_batches", "accumulate"},
    {"gradient_accumulation", "accumulate"},
    {"gradient_accumulation_steps", "accumulate"},
    {"checkpoint_activations", "recompute"},
    {"gradient_checkpointing", "recompute"},
    {"early_stopping", "early_stop"},
    {"arch", "model.name"},
    {"architecture", "model.name"},
    {"network", "model"},
    {"net", "model"},
    {"channels", "features"},
    {"filters", "features"},
    {"f_maps", "features"},
    {"kernel_size", "kernels"},
    {"kernel_sizes", "kernels"},
    {"normalization", "norm"},
    {"act", "activation"},
    {"nonlin", "activation"},
    {"pretrained", "init_from"},
    {"weights", "init_from"},
    {"val", "validation"},
    {"valid", "validation"},
    {"val_data", "validation"},
    {"training", "train"},
    {"trainer", "train"},
    {"dataset", "data"},
    {"datasets", "data"},
    {"classes", "labels"},
    {"num_classes", "labels"},
    {"ignore_index", "ignore_label"},
    {"patch_size", "patch.size"},
    {"augmentation", "augment"},
    {"augmentations", "augment"},
    {"transforms", "augment"},
    {"flip", "mirror"},
    {"rotation", "rotate_deg"},
    {"rotate", "rotate_deg"},
    {"criterion", "loss"},
    {"loss_fn", "loss"},
    {"normalization", "normalize"},
    {"normalisation", "normalize"},
    {"val_interval", "validate.every"},
    {"eval_every", "validate.every"},
    {"save_every", "checkpoint.every"},
    {"log_every", "log.every"},
    {"log_interval", "log.every"},
    {"tta", "mirror_tta"},
    {"overlap_ratio", "overlap"},
    {"base", "inherit"},
    {"extends", "inherit"},
    {"include", "inherit"},
    {"defaults", "inherit"},
    {"experiment", "name"},
    {"experiment_name", "name"},
    {"run_name", "name"},
});

// The same for values.
constexpr auto kValueAliases = std::to_array<Alias>({
    {"float16", "fp16"},
    {"half", "fp16"},
    {"f16", "fp16"},
    {"16_mixed", "fp16"},
    {"bfloat16", "bf16"},
    {"bf16_mixed", "bf16"},
    {"float32", "fp32"},
    {"float", "fp32"},
    {"single", "fp32"},
    {"f32", "fp32"},
    {"amp", "auto"},
    {"mixed", "auto"},
});

std::string normalized(std::string_view word) {
  std::string out;
  for (const char c : word)
    out += c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

int allowed_edits(std::size_t length) { return length <= 3 ? 1 : std::max(2, static_cast<int>(length / 3)); }

std::string_view last_part(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

// The name with the fewest edits, if at most `limit`; the first of several.
std::string nearest_within(std::string_view word, std::span<const std::string> names, int limit) {
  std::string best;
  for (const std::string& name : names) {
    const int distance = edit_distance(word, normalized(name));
    if (distance > limit || distance >= static_cast<int>(std::max(word.size(), name.size()))) continue;
    limit = distance - 1;
    best = name;
  }
  return best;
}

// The first full key that is `ending` or ends in ".ending".
std::string key_ending_in(std::string_view ending, std::span<const std::string> all) {
  for (const std::string& key : all)
    if (key == ending ||
        (key.ends_with(ending) && key.size() > ending.size() && key[key.size() - ending.size() - 1] == '.'))
      return key;
  return "";
}

std::string from_aliases(const std::string& word, std::string_view path,
                         std::span<const std::string> siblings, std::span<const std::string> all) {
  for (const Alias& alias : kAliases)
    if (alias.word == word && std::find(siblings.begin(), siblings.end(), alias.meaning) != siblings.end())
      return std::string(alias.meaning);
  for (const Alias& alias : kAliases) {
    if (alias.word != word) continue;
    const std::string key = key_ending_in(alias.meaning, all);
    if (!key.empty() && key != path) return key;
  }
  return "";
}

// The known other word that `word` mistypes ("learing_rate"); "" if none is near.
std::string nearest_alias(std::string_view word) {
  std::vector<std::string> words;
  for (const Alias& alias : kAliases) words.emplace_back(alias.word);
  return word.size() < 5 ? "" : nearest_within(word, words, 2);
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  std::iota(previous.begin(), previous.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitute = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::string nearest_name(std::string_view word, std::span<const std::string> names) {
  if (word.size() > 100) return "";
  const std::string plain = normalized(word);
  for (const Alias& alias : kValueAliases)
    if (alias.word == plain && std::find(names.begin(), names.end(), alias.meaning) != names.end())
      return std::string(alias.meaning);
  std::string best = nearest_within(plain, names, allowed_edits(plain.size()));
  if (!best.empty() || plain.size() < 3) return best;
  for (const std::string& name : names) {
    const std::string other = normalized(name);
    if (other.starts_with(plain) || (other.size() >= 3 && plain.starts_with(other))) return name;
  }
  return "";
}

std::string nearest_key(std::string_view word, std::string_view path, std::span<const std::string> siblings,
                        std::span<const std::string> all) {
  if (word.size() > 100) return "";
  const std::string plain = normalized(word);
  std::string found = from_aliases(plain, path, siblings, all);
  if (found.empty()) found = nearest_within(plain, siblings, 1);
  if (found.empty()) found = key_ending_in(plain, all);
  if (found.empty()) found = nearest_name(plain, siblings);
  if (found.empty()) found = nearest_within(join_key(path, plain), all, allowed_edits(plain.size()));
  if (!found.empty()) return found;
  std::vector<std::string> last_parts;
  for (const std::string& key : all) last_parts.emplace_back(last_part(key));
  const std::string part = nearest_within(plain, last_parts, allowed_edits(plain.size()));
  if (part.empty()) return from_aliases(nearest_alias(plain), path, siblings, all);
  return all[static_cast<std::size_t>(std::find(last_parts.begin(), last_parts.end(), part) -
                                      last_parts.begin())];
}

}  // namespace tandem
