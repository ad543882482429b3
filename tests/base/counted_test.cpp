// Singular and plural.
#include "core/base/counted.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tandem {
namespace {

TEST(Counted, OneIsSingularAndAllElsePlural) {
  EXPECT_EQ(counted(0, "case"), "0 cases");
  EXPECT_EQ(counted(1, "case"), "1 case");
  EXPECT_EQ(counted(std::int64_t{2}, "case"), "2 cases");
  EXPECT_EQ(counted(std::size_t{1}, "forward pass", "forward passes"), "1 forward pass");
  EXPECT_EQ(counted(8, "forward pass", "forward passes"), "8 forward passes");
}

}  // namespace
}  // namespace tandem
