// A program that sets a German locale for itself, as one around the library may, changes no number in a file.
#include <gtest/gtest.h>

#include <clocale>
#include <locale>
#include <sstream>

#include "tests/data/test_files.h"
#include "train/job.h"
#include "train/metrics_log.h"

namespace tandem {
namespace {

// "1.234,5" in streams, whether or not the system has such a locale.
class GermanNumbers final : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

class GermanLocale {
 public:
  GermanLocale() : before_(std::locale::global(std::locale(std::locale(), new GermanNumbers))) {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE"})
      if (std::setlocale(LC_NUMERIC, name) != nullptr) break;  // for strtod and printf, where it exists
  }
  ~GermanLocale() {
    std::locale::global(before_);
    std::setlocale(LC_ALL, "C");
  }

 private:
  std::locale before_;
};

// What a job, its resolved form and its metrics look like.
std::string written_and_read() {
  const testing::TempFolder folder;
  testing::write_bytes(
      folder / "job.yaml",
      "data: {train: [/a.h5], labels: {background: 0, organ: 1}, cache_bytes: 1.5GiB}\n"
      "train: {iterations: 1234567}\noptimizer: {lr: 1.5e-3, weight_decay: 0.25}\nseed: 1234567\n");
  JobOptions job = load_job(folder / "job.yaml", {"train.clip_norm=12.5", "validate.every=1000"});
  MetricsLog log(folder / "metrics.jsonl");
  log.write(StepMetrics{.step = 1234567, .loss = 0.125, .lr = 1.5e-3, .scale = 65536, .grad_norm = 1234.5});
  return emit_yaml(fields(job)) + testing::read_bytes(folder / "metrics.jsonl");
}

TEST(Locale, NumbersInFilesStayAsTheyAre) {
  const std::string plain = written_and_read();
  EXPECT_NE(plain.find("0.0015"), std::string::npos);
  EXPECT_NE(plain.find("\"step\": 1234567"), std::string::npos) << plain.substr(plain.size() - 200);
  const GermanLocale german;
  std::ostringstream stream;
  stream << 1234.5;
  ASSERT_EQ(stream.str(), "1.234,5") << "the locale is not in force";
  EXPECT_EQ(written_and_read(), plain);
}

}  // namespace
}  // namespace tandem
