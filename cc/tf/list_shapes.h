// Shapes of what is taken out of tensor lists, which TensorFlow's shape inference loses on the way through two loops.
//
// A gradient's loop pops what the forward loop has pushed, and inference does not carry the shapes of a list's elements
// through a loop. Here what is taken out of a list gets the shape of what is put in, on a copy of the graph that is
// good for nothing but inferring once more.

#ifndef LMS_CC_TF_LIST_SHAPES_H_
#define LMS_CC_TF_LIST_SHAPES_H_

#include "cc/tf/graph_index.h"
#include "cc/tf/tensor_lists.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace lms {

// Fills *named, a copy of the item (which `index`, `lists` and `properties` belong to) in which elements of lists have
// the shapes that are known; false, and nothing filled, where no element of open shape has one. Linear.
bool NameElementShapes(const tensorflow::grappler::GrapplerItem& item, const GraphIndex& index,
                       const TensorLists& lists, const tensorflow::grappler::GraphProperties& properties,
                       tensorflow::grappler::GrapplerItem* named);

}  // namespace lms

#endif  // LMS_CC_TF_LIST_SHAPES_H_
