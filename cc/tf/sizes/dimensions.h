// A graph whose arguments have sizes: the copy of an item that shapes are inferred on.
//
// Dimensions that a function leaves unknown (a batch size, as a rule) enter a graph in few places: its arguments,
// placeholders and what iterators hand out. Given a number there, shape inference and shape_values.h carry it through
// the whole graph, products and shape arithmetic included. What nobody knows stays open, and has a name by which it is
// told what rests on it. Bodies of calls are written out (call_bodies.h). Only sizes and costs are taken from the copy:
// no graph that is run holds the numbers, so a plan made for a full batch is right for a smaller one.

#ifndef LMS_CC_TF_SIZES_DIMENSIONS_H_
#define LMS_CC_TF_SIZES_DIMENSIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cc/core/options/options.h"
#include "cc/tf/sizes/call_bodies.h"
#include "cc/tf/sizes/shape_values.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// What an unknown dimension is taken for where nobody knows anything about it.
inline constexpr int64_t kAssumedDim = 32;

class Dimensions {
 public:
  // The item must outlive this. Linear in the graph.
  Dimensions(const tensorflow::grappler::GrapplerItem& item, const Options& options);

  // The copy, or the item itself where its arguments leave nothing unknown, it has no functions and asks no variable
  // for its shape.
  const tensorflow::grappler::GrapplerItem& item() const { return copy_ == nullptr ? item_ : *copy_; }
  const tensorflow::grappler::GrapplerItem& original() const { return item_; }

  // What calls return, in the copy.
  const CallBodies& calls() const { return calls_; }

  // What dimensions are taken for that are unknown even so.
  int64_t rest() const { return rest_; }

  const std::vector<std::string>& lines() const { return lines_; }        // "images:0 = 64 (first call)"
  const std::vector<std::string>& problems() const { return problems_; }  // with the option unknown_dim
  // Of arguments of which nobody knows the size: their names, by the node that brings them into the graph.
  const ShapeValues::Labels& open() const { return open_; }
  // What the first call gave for arguments of few whole numbers, by the node that brings them into the graph.
  const ShapeValues::SeenNumbers& seen() const { return seen_; }
  bool data_may_end() const { return data_may_end_; }  // Options::data_may_end
  const std::map<std::string, int64_t>& earlier_constants() const { return earlier_constants_; }  // Options, likewise
  // What earlier steps have shown of tensors.
  const RecordedShapes& recorded() const { return recorded_; }
  // Names in unknown_dim that are no argument of this function.
  const std::vector<std::string>& strange() const { return strange_; }

 private:
  // In the copy: the shapes of variables, by the VariableShape that asks for them, become constants.
  void FoldVariableShapes(const std::unordered_map<std::string, std::vector<int64_t>>& shapes);

  const tensorflow::grappler::GrapplerItem& item_;
  std::unique_ptr<tensorflow::grappler::GrapplerItem> copy_;
  CallBodies calls_;
  int64_t rest_;
  std::vector<std::string> lines_;
  std::vector<std::string> problems_;
  std::vector<std::string> strange_;
  ShapeValues::Labels open_;
  RecordedShapes recorded_;
  ShapeValues::SeenNumbers seen_;
  bool data_may_end_;
  std::map<std::string, int64_t> earlier_constants_;
};

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_DIMENSIONS_H_
