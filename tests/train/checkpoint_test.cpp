// What a checkpoint holds comes back bit for bit, other programs can read it, and the folder keeps the right
// ones.
#include "train/checkpoint.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "optim/loss_scaler.h"
#include "tests/train/checkpoint_content.h"
#include "train/checkpoint_format.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::counting;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::sample_content;
using testing::TempFolder;

constexpr DType kAllDtypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16,
                                DType::kI64, DType::kI32, DType::kI16, DType::kU8};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

CheckpointContent bare(std::int64_t step) {
  CheckpointContent content;
  content.step = step;
  return content;
}

TEST(Checkpoint, EveryDtypeAndShapeComesBackBitForBit) {
  const TempFolder folder;
  const Shape shapes[] = {
      {},     {1},         {17}, {3, 5}, {2, 3, 4}, {4, 2, 3, 5}, {2, 3, 1, 2, 3}, {2, 1, 2, 1, 2, 3},
      {0, 3}, {2, 0, 3, 3}};
  CheckpointContent content = bare(1);
  for (const DType dtype : kAllDtypes)
    for (const Shape& shape : shapes)
      content.tensors.push_back(
          {"model/" + std::string(name(dtype)) + "." + std::to_string(content.tensors.size()),
           counting(shape, dtype, 1)});
  const CheckpointContent loaded = load_checkpoint(save_checkpoint(folder.path(), content));
  ASSERT_EQ(loaded.tensors.size(), content.tensors.size());
  for (const NamedTensor& saved : content.tensors) {
    const Tensor* found = loaded.find(saved.name);
    ASSERT_NE(found, nullptr) << saved.name;
    EXPECT_EQ(found->dtype(), saved.tensor.dtype()) << saved.name;
    EXPECT_EQ(to_string(found->shape()), to_string(saved.tensor.shape()));
    EXPECT_EQ(found->to_values(), saved.tensor.to_values()) << saved.name;
    EXPECT_EQ(logical_bytes(*found), logical_bytes(saved.tensor)) << saved.name;
  }
}

TEST(Checkpoint, KeepsExtremeBits) {
  const TempFolder folder;
  const std::vector<double> values{-0.0, std::numeric_limits<float>::denorm_min(),
                                   std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(),
                                   0.1f};
  CheckpointContent content = bare(1);
  content.tensors = {{"model/w", Tensor::from_values({5}, values, DType::kF32)}};
  const CheckpointContent loaded = load_checkpoint(save_checkpoint(folder.path(), content));
  EXPECT_EQ(logical_bytes(loaded.tensors[0].tensor), logical_bytes(content.tensors[0].tensor));
  EXPECT_TRUE(std::signbit(loaded.tensors[0].tensor.to_values()[0]));
}

TEST(Checkpoint, EveryFieldOfTheStateComesBack) {
  const TempFolder folder;
  const CheckpointContent saved = sample_content(123);
  const CheckpointContent loaded = load_checkpoint(save_checkpoint(folder.path(), saved));
  EXPECT_FALSE(diff_checkpoints(saved, loaded).has_value());
  // StepState has no padding, and no field of the sample is a default: a field without a name would be lost
  // here.
  EXPECT_EQ(std::memcmp(&loaded.state, &saved.state, sizeof(StepState)), 0);
  EXPECT_EQ(loaded.step, 123);
  EXPECT_EQ(loaded.epoch, 13);
  EXPECT_EQ(loaded.epoch_position, 4);
  EXPECT_EQ(loaded.total_steps, 800);
  EXPECT_EQ(loaded.state.scale, 1024);
  EXPECT_EQ(loaded.state.lr, 0.1f);
  EXPECT_EQ(loaded.state.event, StepEvent::kOverflow);
  EXPECT_EQ(loaded.state.verdict, ScalerVerdict::kNonfiniteLoss);
  EXPECT_EQ(loaded.state.grad_norm, 0.1);
  EXPECT_EQ(loaded.state.skipped_overflow, std::int64_t{1} << 40);
  EXPECT_EQ(loaded.state.last_overflow_step, 121);
  EXPECT_EQ(loaded.state.gradient_amax, 6.5f);
  EXPECT_EQ(loaded.state.interval_peak, 8);
  EXPECT_EQ(loaded.state.gradient_peak, 8.5f);
  EXPECT_EQ(loaded.state.early_backoffs, 10);
  EXPECT_EQ(loaded.state.sanitized, 1);
  ASSERT_EQ(loaded.best.size(), 1u);
  EXPECT_EQ(loaded.best[0].step, 123);
  EXPECT_EQ(loaded.best[0].value, 0.75);
  EXPECT_EQ(loaded.config_yaml, saved.config_yaml);
  EXPECT_EQ(loaded.environment_json, saved.environment_json);
  EXPECT_EQ(loaded.engine_choices, saved.engine_choices);
  EXPECT_TRUE(loaded.defaulted.empty());
}

// V17: saved after step 6 of V1 (scale 64k, 2 good steps), through a file, then the tail O O G G G G; with
// hysteresis 1 and 2.
TEST(Checkpoint, TheLossScalerGoesOnAsIfNeverSaved) {
  for (const std::int64_t hysteresis : {1, 2}) {
    const LossScaler scaler({.growth_interval = 3, .hysteresis = hysteresis}, DType::kF16);
    const auto run = [&scaler](StepState& state, std::string_view events) {
      std::vector<double> trace;
      for (const char event : events) {
        prepare_step(state, 0.01);
        state.event = event == 'G' ? StepEvent::kGood : StepEvent::kOverflow;
        scaler.update(state);
        trace.insert(trace.end(), {state.scale, double(state.good_steps), double(state.hysteresis_left)});
      }
      return trace;
    };
    CheckpointContent content = bare(6);
    content.state = scaler.initial_state();
    run(content.state, "GGGOGG");
    EXPECT_EQ(content.state.good_steps, 2);
    const TempFolder folder;
    CheckpointContent loaded = load_checkpoint(save_checkpoint(folder.path(), content));
    EXPECT_TRUE(scaler.resume(loaded.state, &scaler.knobs()).empty());
    EXPECT_EQ(run(loaded.state, "OOGGGG"), run(content.state, "OOGGGG")) << hysteresis;
    EXPECT_EQ(loaded.state.applied, content.state.applied);
    if (hysteresis == 1) {
      EXPECT_EQ(loaded.state.scale, 32768) << "V1 after step 12";
    }
  }
}

TEST(Checkpoint, LongAndEmptyTextsComeBack) {
  const TempFolder folder;
  CheckpointContent content = bare(1);
  content.config_yaml = std::string(200000, 'x') + "\xc3\xa9\n";  // longer than an HDF5 attribute can be
  const CheckpointContent loaded = load_checkpoint(save_checkpoint(folder.path(), content));
  EXPECT_EQ(loaded.config_yaml, content.config_yaml);
  EXPECT_EQ(loaded.environment_json, "");
}

TEST(Checkpoint, TheFileHoldsWeightsAsOutInTapsWhateverThePitch) {
  const TempFolder folder;
  // Two channels of a wider buffer, as the ParamStore pads them.
  const Tensor wide = counting({2, 4, 3}, DType::kF32);
  CheckpointContent content = bare(1);
  content.tensors = {{"model/w", wide.slice_channels(1, 2)}};
  const CheckpointContent loaded = load_checkpoint(save_checkpoint(folder.path(), content));
  const Tensor& tensor = loaded.tensors[0].tensor;
  EXPECT_TRUE(tensor.is_packed());
  EXPECT_THAT(tensor.to_values(), ElementsAre(3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20));
}

TEST(Checkpoint, HeaderBytesAreAsDocumented) {
  const TempFolder folder;
  const fs::path path = save_checkpoint(folder.path(), sample_content(0x0102030405));
  const std::string bytes = testing::read_bytes(path);
  EXPECT_EQ(path.filename(), "step-4328719365.h5");
  EXPECT_EQ(bytes.substr(0, 8), "TANDEM1\n");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\x01\0\0\0\0\0\0\0", 8));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i)
    length |= std::uint64_t{static_cast<unsigned char>(bytes[16 + i])} << (8 * i);
  EXPECT_EQ(length, bytes.size() - 512);
  EXPECT_EQ(bytes.substr(40, 8), std::string("\x05\x04\x03\x02\x01\0\0\0", 8));
  EXPECT_EQ(bytes.substr(48, 464), std::string(464, '\0'));
  EXPECT_EQ(bytes.substr(512, 8), "\x89HDF\r\n\x1a\n");  // HDF5's own signature behind the user block
}

TEST(Checkpoint, DigestIsXxh3Of128BitsInCanonicalOrder) {
  // XXH128 of nothing, from xxHash's own test vectors.
  std::string hex;
  for (const std::byte b : payload_digest({})) hex += fmt::format("{:02x}", std::to_integer<int>(b));
  EXPECT_EQ(hex, "99aa06d3014798d86001c324468d497f");
}

TEST(Checkpoint, H5pyReadsIt) {
  TD_NEEDS_PYTHON("h5py");
  const TempFolder folder;
  CheckpointContent content = sample_content(42);
  content.tensors.push_back({"buffer/half", counting({3}, DType::kF16, 1)});
  content.tensors.push_back({"buffer/brain", counting({3}, DType::kBF16, 1)});
  const fs::path path = save_checkpoint(folder.path(), content);
  const std::string script = R"(
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r") as f:
    print(f.userblock_size)
    names = []
    f.visititems(lambda n, o: names.append(n) if isinstance(o, h5py.Dataset) and n[:5] not in ("state", "meta/") else None)
    print(" ".join(sorted(names)))
    w = f["model/enc0.conv1.weight"]
    print(w.dtype, w.shape, w[...].reshape(-1).tolist() == [i + 0.5 for i in range(24)])
    print(f["buffer/half"][...].view(np.float16).tolist(), f["buffer/half"].attrs["dtype"])
    print((f["buffer/brain"][...].astype(np.uint32) << 16).view(np.float32).tolist(), f["buffer/brain"].attrs["dtype"])
    s = f["state/scaler"]
    print(s["scale"][()], s["scale"].dtype, s["skipped_overflow"][()] == 2**40, s["grad_norm"][()] == 0.1, s["event"][()])
    print(f["state/run/step"][()], f["state/best/step"][:].tolist(), f["state/best/value"][:].tolist())
    print(f["meta/format"][()].decode(), repr(f["meta/config_yaml"][()].decode()))
)";
  EXPECT_EQ(testing::run_python(folder, script, {path.string()}),
            "512\n"
            "buffer/brain buffer/half model/enc0.conv1.bias model/enc0.conv1.weight "
            "optimizer/exp_avg/enc0.conv1.bias\n"
            "float32 (2, 3, 2, 1, 2) True\n"
            "[1.0, 2.0, 3.0] [b'F16']\n"
            "[1.0, 2.0, 3.0] [b'BF16']\n"
            "1024.0 float32 True True 1\n"
            "42 [42] [0.75]\n"
            "tandem checkpoint 1 'name: test\\nseed: 1\\n'\n");
}

TEST(Checkpoint, SameContentGivesTheSameBytes) {
  const TempFolder a, b;
  EXPECT_EQ(testing::read_bytes(save_checkpoint(a.path(), sample_content(5))),
            testing::read_bytes(save_checkpoint(b.path(), sample_content(5))));
}

TEST(Checkpoint, NonFiniteWeightsAreNotSavedAndAreNamed) {
  const TempFolder folder;
  save_checkpoint(folder.path(), sample_content(10));
  const double bad[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity()};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16})
    for (const double value : bad) {
      CheckpointContent content = sample_content(20);
      content.tensors.push_back(
          {"model/head.weight", Tensor::from_values({1, 2}, std::vector<double>{1, value}, dtype)});
      const std::string text =
          error_of(ErrorKind::kNumeric, [&] { save_checkpoint(folder.path(), content); });
      EXPECT_THAT(text, HasSubstr("model/head.weight"));
      EXPECT_THAT(text, HasSubstr("Last good checkpoint: step 10."));
    }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("best", "latest", "step-000000010.h5"));
}

TEST(Checkpoint, PaddingMayHoldAnything) {
  const TempFolder folder;
  const Tensor wide = Tensor::from_values({1, 2}, std::vector<double>{1, NAN}, DType::kF32);
  CheckpointContent content = bare(1);
  content.tensors = {{"model/w", wide.slice_channels(0, 1)}};
  EXPECT_NO_THROW(save_checkpoint(folder.path(), content));
}

TEST(Checkpoint, BadTensorNamesAreRefused) {
  const TempFolder folder;
  for (const char* name : {"w", "model/", "/model/w", "model//w", "model/../w", "model/./w", "model/a b",
                           "model/\xc3\xa9", "state/w", "meta/w", "a/b/c/d/e", ""}) {
    CheckpointContent content = bare(1);
    content.tensors = {{name, counting({1}, DType::kF32)}};
    EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { save_checkpoint(folder.path(), content); }),
                HasSubstr("tensor name"))
        << name;
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(CheckpointFolder, KeepsTheLastAndTheBestAndPointsAtThem) {
  const TempFolder folder;
  std::vector<RankedCheckpoint> best;
  const std::vector<std::pair<std::int64_t, double>> runs{
      {100, 0.5}, {200, 0.9}, {300, 0.6}, {400, 0.7}, {500, 0.8}};
  for (const auto& [step, value] : runs) {
    CheckpointContent content = bare(step);
    rank_checkpoint(best, {step, value}, true, 1);
    content.best = best;
    save_checkpoint(folder.path(), content, {.keep_last = 2});
  }
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("best", "latest", "step-000000200.h5", "step-000000400.h5", "step-000000500.h5"));
  EXPECT_EQ(testing::read_bytes(folder / "latest"), "step-000000500.h5\n");
  EXPECT_EQ(testing::read_bytes(folder / "best"), "step-000000200.h5\n");
  EXPECT_EQ(read_pointer(folder.path(), "best"), folder / "step-000000200.h5");
}

TEST(CheckpointFolder, LaterStepsAndTornFilesAreNotPruned) {
  const TempFolder folder;
  for (const std::int64_t step : {100, 200, 900})
    save_checkpoint(folder.path(), bare(step), {.keep_last = 9});
  fs::resize_file(folder / "step-000000200.h5", 700);
  save_checkpoint(folder.path(), bare(300), {.keep_last = 2});
  EXPECT_THAT(names_in(folder.path()), ElementsAre("latest", "step-000000100.h5", "step-000000200.h5",
                                                   "step-000000300.h5", "step-000000900.h5"));
}

TEST(CheckpointFolder, NewestIsByHeaderNotByPointerOrTime) {
  const TempFolder folder;
  save_checkpoint(folder.path(), bare(2000000000), {.keep_last = 9});  // longer name, sorts before the others
  save_checkpoint(folder.path(), bare(100), {.keep_last = 9});
  testing::write_bytes(folder / "latest", "step-000000100.h5\n");
  EXPECT_EQ(newest_intact(folder.path()).found->step, 2000000000);
  EXPECT_EQ(resolve_checkpoint(folder.path()), folder / "step-2000000000.h5");
}

TEST(CheckpointFolder, PointersNeverLeadOut) {
  const TempFolder folder;
  save_checkpoint(folder.path(), bare(1));
  for (const char* text : {"../step-000000001.h5\n", "step-000000002.h5\n", "", "/etc/passwd\n"}) {
    testing::write_bytes(folder / "latest", text);
    EXPECT_FALSE(read_pointer(folder.path(), "latest").has_value()) << text;
  }
}

TEST(CheckpointFolder, NothingToResolveSaysWhy) {
  const TempFolder folder;
  EXPECT_THAT(error_of(ErrorKind::kCheckpoint, [&] { resolve_checkpoint(folder / "none.h5"); }),
              HasSubstr("none.h5"));
  EXPECT_THAT(error_of(ErrorKind::kCheckpoint, [&] { resolve_checkpoint(folder.path()); }),
              HasSubstr("got a folder without step-*.h5, expected a checkpoint. Train first"));
  testing::write_bytes(folder / "step-000000007.h5", "junk");
  EXPECT_THAT(error_of(ErrorKind::kCheckpoint, [&] { resolve_checkpoint(folder.path()); }),
              HasSubstr("step-000000007.h5: torn: got 4 bytes"));
}

TEST(Ranking, KeepsTheBestFirstAndTheEarlierOnATie) {
  std::vector<RankedCheckpoint> best;
  const auto steps = [&best] {
    std::vector<std::int64_t> list;
    for (const RankedCheckpoint& entry : best) list.push_back(entry.step);
    return list;
  };
  EXPECT_TRUE(rank_checkpoint(best, {1, 0.5}, true, 2));
  EXPECT_TRUE(rank_checkpoint(best, {2, 0.5}, true, 2));
  EXPECT_FALSE(rank_checkpoint(best, {3, 0.5}, true, 2));
  EXPECT_FALSE(rank_checkpoint(best, {4, NAN}, true, 2));
  EXPECT_THAT(steps(), ElementsAre(1, 2));
  EXPECT_TRUE(rank_checkpoint(best, {5, 0.6}, true, 2));
  EXPECT_THAT(steps(), ElementsAre(5, 1));
  std::vector<RankedCheckpoint> losses;
  rank_checkpoint(losses, {1, 0.5}, false, 1);
  EXPECT_TRUE(rank_checkpoint(losses, {2, 0.4}, false, 1));
  EXPECT_EQ(losses[0].step, 2);
  EXPECT_FALSE(rank_checkpoint(losses, {3, 0.1}, false, 0));
}

TEST(Difference, NamesTheFirstTensorAndItsFirstValue) {
  const CheckpointContent a = sample_content(5);
  CheckpointContent b = sample_content(5);
  b.config_yaml = "other";  // not compared
  EXPECT_FALSE(diff_checkpoints(a, b).has_value());
  b.state.good_steps += 1;
  EXPECT_EQ(diff_checkpoints(a, b)->name, "state/scaler/good_steps");
  EXPECT_EQ(diff_checkpoints(a, b)->text, "7, 8");
  b.tensors[0].tensor = counting({2, 3, 2, 1, 2}, DType::kF32, 0.5);
  b.tensors[0].tensor.data<float>()[1] = 99;  // stored K, taps, C: logical [0, 1, 0, 0, 0]
  const auto difference = diff_checkpoints(a, b);
  EXPECT_EQ(difference->name, "model/enc0.conv1.weight");
  EXPECT_EQ(difference->text, "1 of 24 values differ by up to 94.5, first at [0, 1, 0, 0, 0]: 4.5, 99");
  b.tensors.erase(b.tensors.begin() + 1);
  EXPECT_EQ(diff_checkpoints(a, b)->name, "model/enc0.conv1.bias");
  EXPECT_EQ(diff_checkpoints(a, b)->text, "only in the first");
}

TEST(Difference, MinusZeroAndDtypeDiffer) {
  CheckpointContent a = bare(1), b = bare(1);
  a.tensors = {{"model/w", Tensor::from_values({1}, std::vector<double>{0.0}, DType::kF32)}};
  b.tensors = {{"model/w", Tensor::from_values({1}, std::vector<double>{-0.0}, DType::kF32)}};
  EXPECT_TRUE(diff_checkpoints(a, b).has_value());
  b.tensors = {{"model/w", Tensor::from_values({1}, std::vector<double>{0.0}, DType::kF64)}};
  EXPECT_EQ(diff_checkpoints(a, b)->text, "F32 [1], F64 [1]");
}

TEST(Restore, FillsPitchedViewsAndKeepsTheirPadding) {
  const CheckpointContent content = sample_content(5);
  const Tensor wide = Tensor::zeros({2, 4, 2, 1, 2}, DType::kF32);
  const Tensor bias = Tensor::zeros({2}, DType::kF32);
  const NamedTensor targets[] = {{"model/enc0.conv1.weight", wide.slice_channels(0, 3)},
                                 {"model/enc0.conv1.bias", bias}};
  restore_tensors(content, targets);
  EXPECT_EQ(wide.slice_channels(0, 3).to_values(), content.tensors[0].tensor.to_values());
  for (const double padding : wide.slice_channels(3, 1).to_values()) EXPECT_EQ(padding, 0);
  EXPECT_THAT(bias.to_values(), ElementsAre(5, 6));
}

TEST(Restore, ListsEveryDifferenceAndChangesNothing) {
  const CheckpointContent content = sample_content(5);
  const Tensor bias = Tensor::zeros({2}, DType::kF32);
  const NamedTensor targets[] = {{"model/enc0.conv1.bias", bias},
                                 {"model/head.weight", Tensor::zeros({4, 2}, DType::kF32)},
                                 {"optimizer/exp_avg/enc0.conv1.bias", Tensor::zeros({3}, DType::kF32)}};
  const std::string text = error_of(ErrorKind::kCheckpoint, [&] { restore_tensors(content, targets); });
  EXPECT_THAT(text, HasSubstr("3 differences"));
  EXPECT_THAT(text, HasSubstr("model/head.weight: file nothing, model F32 [4, 2]"));
  EXPECT_THAT(text, HasSubstr("optimizer/exp_avg/enc0.conv1.bias: file F32 [2], model F32 [3]"));
  EXPECT_THAT(text, HasSubstr("model/enc0.conv1.weight: file F32 [2, 3, 2, 1, 2], model nothing"));
  EXPECT_THAT(bias.to_values(), ElementsAre(0, 0));
  EXPECT_THAT(
      error_of(ErrorKind::kCheckpoint, [&] { require_tensor(content, "model/enc0.conv1.bias", Shape{7}); }),
      HasSubstr("got shape [2] in the file, expected [7]"));
}

}  // namespace
}  // namespace tandem
