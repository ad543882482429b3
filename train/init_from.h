// model.init_from: the weights of a checkpoint as the start of another run. Going on with the same run is
// train/resume and Trainer::load.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/models/model_table.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace tandem {

// "FROM=TO": names of the checkpoint, without "model/" or "buffer/", that fit the pattern FROM become TO.
// FROM may hold one *, for any text; where TO holds one too, that text stands there.
struct RenameRule {
  std::string from, to;
};
inline constexpr std::string_view kRenameForm = "FROM=TO with at most one * each, as encoder.*=enc*";
std::optional<RenameRule> rename_rule(const std::string& text);  // nothing for anything else
// Error{kConfig} naming the text for anything else.
std::vector<RenameRule> parse_rename_rules(const std::vector<std::string>& texts);
// By the first rule that fits; else `name` itself.
std::string renamed(const std::string& name, const std::vector<RenameRule>& rules);

// Names as in the model, "enc0.conv1.weight"; of `different` and `unused` with the shapes.
struct InitReport {
  std::vector<std::string> taken, missing, different, unused;
  bool complete() const { return missing.empty() && different.empty() && unused.empty(); }
  // "42 of 46 tensors taken; ..." and a line for each list that is not empty.
  std::string text() const;
};

// Copies every tensor of `content`'s groups model and buffer, renamed, into the target of the same name,
// shape and dtype (targets as in Trainer::save: "model/...", "buffer/..."); other targets keep their values.
// Nothing else of the checkpoint is used. Error{kCheckpoint}, and nothing is changed: no tensor fits; with
// `strict` anything is missing, different or unused; two names become one.
InitReport initialise_weights(const CheckpointContent& content, std::span<const NamedTensor> targets,
                              const std::vector<RenameRule>& rules, bool strict);

// The same for a trainer, by the job's model.init_from (a checkpoint, or a run folder for its newest one),
// init_rename and init_strict, with the report in the log. Does nothing without init_from.
void initialise_from(const ModelOptions& options, Trainer& trainer);

}  // namespace tandem
