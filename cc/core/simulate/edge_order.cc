#include "cc/core/simulate/edge_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace lms {
namespace {

constexpr uint64_t kEdgeBytes = 32;
constexpr uint64_t kPieceBytes = 8192;
constexpr uint64_t kNoAddress = 0;
// Above the place of an edge in all tables that are met, and away from address 0.
constexpr uint64_t kPeriod = uint64_t{1} << 22;
constexpr uint64_t kSomewhere = uint64_t{1} << 40;

// A multiple of `step` below `range`, for the draw and what it is drawn for: evenly spread over both.
uint64_t Spread(uint32_t draw, uint32_t dimension, uint64_t range, uint64_t step) {
  const double irrational = (1 + std::sqrt(5.0)) / 2 + dimension * std::sqrt(2.0);
  double whole = 0;
  const double part = std::modf((draw + 1) * irrational, &whole);
  const uint64_t places = range / step;
  return static_cast<uint64_t>(part * static_cast<double>(places)) * step;
}

// An open hash table of addresses. It grows where four fifths are taken, which moves all in the order of their slots.
class Table {
 public:
  Table() { Resize(1); }

  void Insert(uint64_t address) {
    if (taken_ >= static_cast<size_t>(static_cast<double>(slots_.size()) * kMostTaken)) {
      std::vector<uint64_t> old;
      old.swap(slots_);
      Resize(taken_ + 1);
      taken_ = 0;
      for (const uint64_t other : old) {
        if (other != kNoAddress) Put(other);
      }
    }
    Put(address);
  }

  const std::vector<uint64_t>& slots() const { return slots_; }

 private:
  static constexpr double kMostTaken = 0.8;
  static constexpr size_t kWidth = 8;

  void Resize(size_t count) {
    size_t size = kWidth;
    while (static_cast<double>(count) >= kMostTaken * static_cast<double>(size)) size *= 2;
    slots_.assign(size, kNoAddress);
  }

  void Put(uint64_t address) {
    const uint64_t hash = address + (address >> 6);
    size_t slot = (hash >> 8) & (slots_.size() - 1);
    for (size_t probes = 1; slots_[slot] != kNoAddress; ++probes) slot = (slot + probes) & (slots_.size() - 1);
    slots_[slot] = address;
    ++taken_;
  }

  std::vector<uint64_t> slots_;
  size_t taken_ = 0;
};

}  // namespace

std::vector<int> InTableOrder(const std::vector<uint64_t>& addresses) {
  Table table;
  for (const uint64_t address : addresses) table.Insert(address);
  std::vector<std::pair<uint64_t, int>> indices;
  for (size_t i = 0; i < addresses.size(); ++i) indices.emplace_back(addresses[i], static_cast<int>(i));
  std::sort(indices.begin(), indices.end());
  std::vector<int> order;
  for (const uint64_t address : table.slots()) {
    if (address == kNoAddress) continue;
    order.push_back(std::lower_bound(indices.begin(), indices.end(), std::make_pair(address, 0))->second);
  }
  return order;
}

EdgeOrder::EdgeOrder(int edges, EdgeDraws draws, uint32_t draw) : draws_(draws), random_(draw) {
  if (draws_ == EdgeDraws::kAny) return;
  uint32_t dimension = 0;
  // Memory is given out in multiples of 16 bytes; in the first piece nodes come before the edges, in steps of 8.
  begin_ = Spread(draw, dimension++, kPieceBytes, 8);
  first_ = kSomewhere + Spread(draw, dimension++, kPeriod, 8);
  const uint64_t pieces = (begin_ + static_cast<uint64_t>(edges) * kEdgeBytes) / kPieceBytes + 1;
  for (uint64_t i = 0; i < pieces; ++i) {
    pieces_.push_back(kSomewhere + (i + 1) * kPeriod + Spread(draw, dimension++, kPeriod - kPieceBytes, 16));
  }
}

uint64_t EdgeOrder::AddressOf(int number) const {
  const uint64_t at = begin_ + static_cast<uint64_t>(number) * kEdgeBytes;
  return pieces_[at / kPieceBytes] + at % kPieceBytes;
}

std::vector<int> EdgeOrder::Order(const std::vector<int>& numbers) {
  if (draws_ == EdgeDraws::kByAddress) {
    std::vector<uint64_t> addresses;
    addresses.reserve(numbers.size());
    for (const int number : numbers) addresses.push_back(number < 0 ? first_ : AddressOf(number));
    return InTableOrder(addresses);
  }
  std::vector<int> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  // Not std::shuffle, whose result differs between standard libraries.
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_() % i]);
  return order;
}

void EdgeOrder::Sort(const std::vector<ReaderEdge>& data, const std::vector<ReaderEdge>& control) {
  data_readers_.clear();
  control_readers_.clear();
  std::vector<int> numbers;
  std::vector<std::pair<int, bool>> readers;  // and is it one of data?
  for (size_t d = 0, c = 0; d < data.size() || c < control.size();) {
    const bool of_data = c == control.size() || (d < data.size() && data[d].number < control[c].number);
    const ReaderEdge& edge = of_data ? data[d++] : control[c++];
    numbers.push_back(edge.number);
    readers.emplace_back(edge.reader, of_data);
  }
  for (const int i : Order(numbers)) {
    (readers[i].second ? data_readers_ : control_readers_).push_back(readers[i].first);
  }
}

std::vector<int> EdgeOrder::SortRoots(const std::vector<ReaderEdge>& roots) {
  std::vector<int> numbers{-1};  // the edge with which the graph began
  std::vector<int> nodes(1 + kSinkEdges, -1);
  for (int number = 0; number < kSinkEdges; ++number) numbers.push_back(number);
  for (const ReaderEdge& edge : roots) {
    numbers.push_back(edge.number);
    nodes.push_back(edge.reader);
  }
  std::vector<int> sorted;
  if (numbers.size() <= kOrderedEdges) {
    for (const ReaderEdge& edge : roots) sorted.push_back(edge.reader);
    return sorted;
  }
  for (const int i : Order(numbers)) {
    if (nodes[i] >= 0) sorted.push_back(nodes[i]);
  }
  return sorted;
}

}  // namespace lms
