#include "cc/tf/graph/variable_reads.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "tests/cc/tf/graph_builder.h"

namespace lms {
namespace {

using testing::GraphBuilder;
using testing::Types;

// What a variable hands out, through a view into an IdentityN that passes on x too; "of_w" and "of_x" read its outputs.
// "changed" is what an in-place update makes of the view, and "of_changed" reads that.
class VariableReadsTest : public ::testing::Test {
 protected:
  VariableReadsTest() {
    b_.Parse("x[4, 4]; w = VarHandleOp[4, 4]; read = ReadVariableOp(w); view = Identity(read)");
    b_.Add("both", "IdentityN", {"view", "x"}, {Types("T", {tensorflow::DT_FLOAT, tensorflow::DT_FLOAT})});
    b_.Parse(
        "of_w = Neg(both); of_x = Neg(both:1); index{0}; changed = InplaceUpdate(view, index, x); "
        "of_changed = Neg(changed)");
    for (const char* node : {"of_w", "of_x", "of_changed"}) b_.Fetch(node);
    EXPECT_TRUE(index_.Build(b_.item()).ok());
  }

  std::string Behind(const std::string& node, int port) {
    const int read = ReadBehind(graph(), index_, {index_.Find(node), port});
    return read < 0 ? "" : graph().node(read).name();
  }

  const tensorflow::GraphDef& graph() { return b_.item().graph; }

  GraphBuilder b_;
  GraphIndex index_;
};

TEST_F(VariableReadsTest, BackFromATensorEachPortIsFollowedByItself) {
  EXPECT_EQ(Behind("read", 0), "read");
  EXPECT_EQ(Behind("both", 0), "read");
  EXPECT_EQ(Behind("both", 1), "");
  EXPECT_EQ(Behind("of_w", 0), "");
}

TEST_F(VariableReadsTest, BackFromATensorChangesInPlaceAreTheSameStorage) { EXPECT_EQ(Behind("changed", 0), "read"); }

TEST_F(VariableReadsTest, ForwardFromAReadAllReadersOfAViewCountAndAChangeInPlaceIsTheLast) {
  std::vector<std::string> readers;
  for (const int reader : ReadersToWaitFor(graph(), index_, index_.Find("read"))) {
    readers.push_back(graph().node(reader).name());
  }
  EXPECT_EQ(readers, (std::vector<std::string>{"of_w", "of_x", "changed"}));
}

}  // namespace
}  // namespace lms
