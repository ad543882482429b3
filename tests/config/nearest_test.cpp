// Edit distance and what a mistyped key meant.
#include "core/config/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

TEST(Nearest, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // optimal string alignment (2 in the unrestricted form)
  EXPECT_EQ(edit_distance("momentmu", "momentum"), 1);
  EXPECT_EQ(edit_distance("learing_rate", "learning_rate"), 1);
  EXPECT_EQ(edit_distance("abcd", "acbd"), 1);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
}

TEST(Nearest, Names) {
  const std::vector<std::string> names = {"train", "eval", "predict", "summary", "config"};
  EXPECT_EQ(nearest_name("trian", names), "train");
  EXPECT_EQ(nearest_name("Train", names), "train");
  EXPECT_EQ(nearest_name("prediction", names), "predict");  // 3 = a third of 10
  EXPECT_EQ(nearest_name("summ", names), "summary");        // beginning
  EXPECT_EQ(nearest_name("evaluate", names), "eval");
  EXPECT_EQ(nearest_name("zebra", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'x'), names), "");
  EXPECT_EQ(nearest_name("lt", std::vector<std::string>{"lr", "it"}), "lr");  // the first of equals
  EXPECT_EQ(nearest_name("xy", std::vector<std::string>{"lr"}), "");          // nothing in common
  EXPECT_EQ(nearest_name("weight-decay", std::vector<std::string>{"weight_decay"}), "weight_decay");
}

TEST(Nearest, Keys) {
  const std::vector<std::string> all = {"name",
                                        "precision",
                                        "precision.compute",
                                        "precision.loss_scale",
                                        "threads",
                                        "device",
                                        "data",
                                        "data.workers",
                                        "data.train",
                                        "optimizer",
                                        "optimizer.lr",
                                        "optimizer.weight_decay",
                                        "schedule",
                                        "patch",
                                        "patch.size",
                                        "train",
                                        "train.batch_size",
                                        "train.epochs",
                                        "train.clip_norm",
                                        "log",
                                        "inherit"};
  const std::vector<std::string> root = {"name",      "precision", "threads", "device", "data",
                                         "optimizer", "schedule",  "patch",   "train",  "log"};
  const std::vector<std::string> optimizer = {"lr", "weight_decay"};
  const std::vector<std::string> train = {"batch_size", "epochs", "clip_norm"};
  const auto at_root = [&](const char* word) { return nearest_key(word, "", root, all); };
  // Other frameworks' words.
  EXPECT_EQ(nearest_key("learning_rate", "optimizer", optimizer, all), "lr");
  EXPECT_EQ(nearest_key("learning-rate", "optimizer", optimizer, all), "lr");
  EXPECT_EQ(at_root("learning_rate"), "optimizer.lr");
  EXPECT_EQ(at_root("batch"), "train.batch_size");  // and not `patch`, one edit away
  EXPECT_EQ(nearest_key("batch", "train", train, all), "batch_size");
  EXPECT_EQ(nearest_key("max_epochs", "train", train, all), "epochs");
  EXPECT_EQ(at_root("amp"), "precision.compute");
  EXPECT_EQ(at_root("mixed_precision"), "precision.compute");
  EXPECT_EQ(at_root("lr_scheduler"), "schedule");
  EXPECT_EQ(at_root("optim"), "optimizer");
  EXPECT_EQ(at_root("num_workers"), "data.workers");
  EXPECT_EQ(at_root("workers"), "data.workers");
  EXPECT_EQ(at_root("patch_size"), "patch.size");
  EXPECT_EQ(at_root("base"), "inherit");
  EXPECT_EQ(nearest_key("grad_clip", "train", train, all), "clip_norm");
  // Typing mistakes.
  EXPECT_EQ(at_root("treads"), "threads");
  EXPECT_EQ(at_root("optimzier"), "optimizer");
  EXPECT_EQ(nearest_key("weigth_decay", "optimizer", optimizer, all), "weight_decay");
  EXPECT_EQ(nearest_key("weight", "optimizer", optimizer, all), "weight_decay");  // beginning
  // A key in the wrong place.
  EXPECT_EQ(at_root("lr"), "optimizer.lr");
  EXPECT_EQ(at_root("epochs"), "train.epochs");
  EXPECT_EQ(nearest_key("epochs", "optimizer", optimizer, all), "train.epochs");
  EXPECT_EQ(at_root("clip_nrom"), "train.clip_norm");
  EXPECT_EQ(at_root("inherits"), "inherit");
  EXPECT_EQ(at_root("qwertyuiop"), "");
}

}  // namespace
}  // namespace tandem
