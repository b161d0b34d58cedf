// Tensor lists as memory sees them: what TensorArrays and the accumulators of while loops hold.
//
// A list is a variant, of which shape inference knows no size. Its elements are tensors that share the storage of what
// was put in: a tensor that is pushed on three lists is held once. So lists that share elements make one group, with
// one buffer, whose bytes are those of all its elements: there from where a loop makes the first of them (or a list is
// made of a tensor) to the last reader of any of them. Elements that are popped are not taken off before the loop that
// pops them has ended. Of an empty list that enters a loop each Enter is a list of its own: TensorFlow merges the nodes
// that make lists alike.
//
// How many elements a list gets is read off what its maker is told, or else off the bound of the loop that fills it,
// where these are constants or made of shapes alone; or else it is how often the loop went round in earlier steps.
// Where none of these says it, the list is unknown, and counts nothing.
//
// Built once per graph, in linear time, then read-only.

#ifndef LMS_CC_TF_SIZES_TENSOR_LISTS_H_
#define LMS_CC_TF_SIZES_TENSOR_LISTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cc/tf/graph/graph_index.h"
#include "cc/tf/graph/loops.h"
#include "cc/tf/sizes/tensor_sizes.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace lms {

class TensorLists {
 public:
  // All of one graph.
  TensorLists(const tensorflow::GraphDef& graph, const GraphIndex& index, const TensorSizes& sizes, const Loops& loops);

  // The list that the node hands on as output 0; -1 when that is none.
  int ListOf(int node) const { return list_of_[node]; }
  // The group of the list that the node hands on as output 0; -1 when that is none.
  int GroupOf(int node) const { return list_of_[node] < 0 ? -1 : group_[list_of_[node]]; }
  // The group whose element the tensor is; -1 when it is none's, or was taken off a list that is emptied one by one.
  int GroupOfElement(const TensorRef& tensor) const;

  struct Group {
    int64_t bytes = 0;          // of all elements
    int64_t step_bytes = 0;     // of those that one iteration adds
    int64_t element_bytes = 0;  // of the largest; 0: not all are made one by one
    bool known = true;
    AssumptionSet assumptions = 0;  // that the bytes rest on
    bool grows = false;             // there is nothing in it before loops make its elements
    TensorRef rows_of = {-1, 0};    // its elements are rows of this tensor, in its storage; the bytes are not counted
  };
  // The groups of which the node, in a loop, makes elements.
  std::vector<int> GroupsMadeBy(int node) const;
  int groups() const { return static_cast<int>(groups_.size()); }
  const Group& group(int group) const { return groups_[group]; }

  // Does the node make a list that is still empty?
  bool EmptyYet(int node) const;
  // Does the node hand on as it is a list that began empty?
  bool BeganEmpty(int node) const;
  // Is the list that the node makes of a tensor nothing but that tensor's rows, as long as it is there? Lists that
  // share its elements have no others, no loop puts any in their place that have storage of their own, and kernels may
  // read the rows where they lie.
  bool OnlyRows(int node) const;
  // Bytes of the node's own list, if it were put into one tensor; -1: not known.
  int64_t BytesOf(int node) const;

  // How many elements the list that the node hands on gets, where its maker says so; else -1.
  int64_t ElementsOf(int node) const { return list_of_[node] < 0 ? -1 : lists_[list_of_[node]].elements; }

  // Is the tensor, in a loop, storage of its own in each iteration? Not what is the same in all of them, nor what was
  // taken out of a list.
  bool MadeInIteration(const TensorRef& tensor) const { return SourceOf(tensor).kind == Source::kOwn; }
  // The tensor of an iteration whose storage it is, or was one iteration before.
  TensorRef StorageOf(const TensorRef& tensor) const { return SourceOf(tensor).tensor; }

  // How often the loop goes round, or did in earlier steps; -1 where neither is known. An estimate: a step may go on.
  int64_t Trips(int frame) const { return trips_[frame]; }
  // The loops that fill lists up to an end that only the run decides, known from earlier steps or not, where a variable
  // of theirs counts the iterations.
  struct OpenLoop {
    std::string loop;     // its LoopCond
    std::string counter;  // the Switch of that variable
    int64_t step_bytes;   // that one iteration adds to these lists; 0: not known
  };
  std::vector<OpenLoop> OpenLoops() const;
  // What may be waiting in the loop, beyond one iteration, while its iterations overlap: those that run ahead have
  // given their results to sums that have not been added up yet, less the elements that they have popped.
  int64_t OverlapOf(int frame) const;

 private:
  struct List {
    int maker;
    int64_t elements = -1;      // -1: not known
    int64_t bytes = 0;          // in elements of its own, before groups
    int64_t element_bytes = 0;  // of the largest that is put in; 0: none is
    int64_t step_bytes = 0;
    int64_t whole_bytes = 0;  // of all elements, whoever has their storage; -1: not known
    bool full = false;        // made of a tensor: what is put in takes the place of something
    bool replaced = false;    // by what has storage of its own
    bool taken = false;       // its elements are on other lists, too: these hold what is replaced
    int64_t more_bytes = 0;   // of what has taken the place of elements that others hold
    bool in_rows = false;     // made of a tensor whose storage its elements are
    int64_t row_bytes = 0;    // of an element that is read; 0: none is, -1: not known
    bool grows = true;        // nothing is put in but in loops
    bool known = true;
    bool segment = false;  // filled a segment of iterations at a time, and emptied one by one
    AssumptionSet assumptions = 0;
  };
  struct Source {
    enum Kind { kOwn, kOutside, kElement } kind;
    TensorRef tensor;
  };

  bool MakesList(int node) const;
  // Are the node's zeros like an Optional, which one may hand on before? Branches return such ones for their gradients.
  bool OfOptional(int node) const;
  bool HandsOn(int node, size_t input) const;
  // Is it a loop that lms has added, which fills lists up to where its gradient stands?
  bool FillsSegments(int frame) const;
  int NewList(List list);
  void FindLists();
  void FindTrips();
  void FindBounds();
  void FindBound(int frame);
  // Is it the Switch of a variable of the type that counts its loop's iterations?
  bool Counts(int fork, tensorflow::DataType type) const;
  int64_t ConstantOf(TensorRef tensor, int depth) const;
  Source SourceOf(TensorRef tensor) const;
  // Each -1 where it is not known.
  static void AddWhole(int64_t count, int64_t bytes, List* list);
  void FindRowBytes();
  void AddElements();
  int Root(int list) const;
  void Join(int a, int b);
  TensorSize SizeOf(const TensorRef& tensor) const;

  const tensorflow::GraphDef& graph_;
  const GraphIndex& index_;
  const TensorSizes& sizes_;
  const Loops& loops_;
  std::vector<List> lists_;
  std::vector<int> list_of_;  // per node
  mutable std::vector<int> parent_;
  std::vector<int> group_;          // per list
  std::vector<int64_t> own_bytes_;  // per list that stands for a group: of all its lists; -1: not known
  std::vector<Group> groups_;
  std::map<int, std::vector<int>> made_by_;  // lists whose elements the node makes, by node
  std::vector<int64_t> trips_;
  std::vector<bool> open_;      // per frame: its trips are not constant
  std::vector<int64_t> fills_;  // per frame: bytes that an iteration adds to lists as long as it goes round; -1: none
};

}  // namespace lms

#endif  // LMS_CC_TF_SIZES_TENSOR_LISTS_H_
