#include "cc/core/simulate/places.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "cc/core/base/arena_unit.h"

namespace lms {
namespace {

// More are not compared with each other: those that are smaller get no place.
constexpr size_t kMostPlaced = 3000;
constexpr int kMostRounds = 20;

// An allocation in all runs.
struct Tenant {
  Allocated what;
  int64_t bytes = 0;
  int64_t length = 0;                             // of its lifetimes, all together
  std::vector<std::pair<int32_t, int32_t>> life;  // per run; {0, 0} where it is not there
  bool stays = false;

  // In more than so many runs.
  bool Meets(const Tenant& other, size_t runs) const {
    size_t met = 0;
    for (size_t run = 0; run < life.size(); ++run) {
      const bool meet = life[run].first < other.life[run].second && other.life[run].first < life[run].second;
      if (meet && ++met > runs) return true;
    }
    return false;
  }
};

std::vector<Tenant> TenantsOf(const std::vector<std::vector<Lifetime>>& runs) {
  std::map<std::pair<Allocated, int64_t>, size_t> index;
  std::vector<Tenant> tenants;
  for (size_t run = 0; run < runs.size(); ++run) {
    for (const Lifetime& lifetime : runs[run]) {
      const auto [found, added] = index.try_emplace({lifetime.what, lifetime.bytes}, tenants.size());
      if (added) {
        tenants.emplace_back();
        tenants.back().what = lifetime.what;
        tenants.back().bytes = InArenaUnits(lifetime.bytes);
        tenants.back().life.resize(runs.size(), {0, 0});
      }
      Tenant& tenant = tenants[found->second];
      // What is there twice in a run cannot be told apart.
      tenant.stays =
          tenant.stays || lifetime.stays || lifetime.what.part == Allocated::kOther || tenant.life[run].second != 0;
      tenant.life[run] = {lifetime.from, lifetime.to};
      tenant.length += lifetime.to - lifetime.from;
    }
  }
  return tenants;
}

// The most bytes at any time of those that count.
int64_t MostBytes(const std::vector<Tenant>& tenants, const std::vector<bool>& counts, size_t runs) {
  int64_t most = 0;
  for (size_t run = 0; run < runs; ++run) {
    std::vector<std::pair<int32_t, int64_t>> changes;
    for (size_t i = 0; i < tenants.size(); ++i) {
      if (!counts[i] || tenants[i].life[run].second == 0) continue;
      changes.emplace_back(tenants[i].life[run].first, tenants[i].bytes);
      changes.emplace_back(tenants[i].life[run].second, -tenants[i].bytes);
    }
    std::sort(changes.begin(), changes.end());
    int64_t now = 0;
    for (const auto& [when, bytes] : changes) most = std::max(most, now += bytes);
  }
  return most;
}

struct Packed {
  std::vector<int64_t> extents;              // per piece
  std::vector<std::optional<Place>> places;  // per tenant

  int64_t Extent() const { return std::accumulate(extents.begin(), extents.end(), int64_t{0}); }
};

class Packing {
 public:
  // `meets`: of each tenant those that are there at the same time.
  Packing(const std::vector<Tenant>& tenants, const std::vector<std::vector<int>>& meets,
          const std::vector<int64_t>& pieces)
      : tenants_(tenants), meets_(meets), pieces_(pieces) {
    packed_.extents.resize(pieces.size(), 0);
    packed_.places.resize(tenants.size());
  }

  Packed Run(const std::vector<int>& order) {
    for (const int tenant : order) PlaceOne(tenant);
    return std::move(packed_);
  }

 private:
  void PlaceOne(int tenant) {
    std::vector<std::tuple<int, int64_t, int64_t>> taken;  // piece, from, to
    for (const int other : meets_[tenant]) {
      if (!packed_.places[other]) continue;
      const Place& place = *packed_.places[other];
      taken.emplace_back(place.block, place.offset, place.offset + tenants_[other].bytes);
    }
    std::sort(taken.begin(), taken.end());
    // Gaps within what is used already come first, the smallest of them; else what adds least.
    const int64_t bytes = tenants_[tenant].bytes;
    std::optional<Place> best;
    std::tuple<int64_t, int64_t> best_cost;
    const auto consider = [&](int piece, int64_t from, int64_t to) {
      if (to - from < bytes) return;
      const int64_t grows = std::max<int64_t>(0, from + bytes - packed_.extents[piece]);
      const std::tuple<int64_t, int64_t> cost = {grows, std::min(to, packed_.extents[piece]) - from};
      if (best && cost >= best_cost) return;
      best = Place{piece, from};
      best_cost = cost;
    };
    size_t next = 0;
    for (int piece = 0; piece < static_cast<int>(pieces_.size()); ++piece) {
      int64_t from = 0;
      for (; next < taken.size() && std::get<0>(taken[next]) == piece; ++next) {
        consider(piece, from, std::get<1>(taken[next]));
        from = std::max(from, std::get<2>(taken[next]));
      }
      consider(piece, from, pieces_[piece]);
    }
    if (!best) return;
    packed_.places[tenant] = best;
    packed_.extents[best->block] = std::max(packed_.extents[best->block], best->offset + bytes);
  }

  const std::vector<Tenant>& tenants_;
  const std::vector<std::vector<int>>& meets_;
  const std::vector<int64_t>& pieces_;
  Packed packed_;
};

template <typename Key>
std::vector<int> OrderBy(size_t count, const Key& key) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int one, int other) { return key(one) > key(other); });
  return order;
}

Places PlacesOf(const Packed& packed, const std::vector<Tenant>& tenants) {
  Places places;
  std::vector<int> number(packed.extents.size(), -1);
  for (const int piece : OrderBy(packed.extents.size(), [&](int i) { return packed.extents[i]; })) {
    if (packed.extents[piece] == 0) continue;
    number[piece] = static_cast<int>(places.blocks.size());
    places.blocks.push_back(packed.extents[piece]);
  }
  for (size_t i = 0; i < tenants.size(); ++i) {
    // Room is left for workspace, but nobody knows by how many requests it is asked for.
    if (tenants[i].what.part == Allocated::kWorkspace) continue;
    Place place = *packed.places[i];
    place.block = number[place.block];
    places.entries.push_back({tenants[i].what, tenants[i].bytes, place});
  }
  std::sort(places.entries.begin(), places.entries.end(),
            [](const Places::Entry& one, const Places::Entry& other) { return one.what < other.what; });
  return places;
}

}  // namespace

const Place* Places::Find(const Allocated& what, int64_t bytes) const {
  auto found = std::lower_bound(entries.begin(), entries.end(), what,
                                [](const Entry& entry, const Allocated& of) { return entry.what < of; });
  for (; found != entries.end() && found->what == what; ++found) {
    if (found->bytes == bytes) return &found->place;
  }
  return nullptr;
}

std::vector<Places> FindPlaces(const std::vector<std::vector<Lifetime>>& runs, std::vector<int64_t> free,
                               int64_t least_bytes, double rare) {
  std::vector<Tenant> all = TenantsOf(runs);
  std::vector<int64_t> sizes;
  for (const Tenant& tenant : all) sizes.push_back(tenant.bytes);
  if (sizes.size() > kMostPlaced) {
    std::nth_element(sizes.begin(), sizes.begin() + kMostPlaced, sizes.end(), std::greater<>());
    least_bytes = std::max(least_bytes, sizes[kMostPlaced] + 1);
  }
  std::vector<bool> outside(all.size());
  std::vector<Tenant> tenants;
  for (size_t i = 0; i < all.size(); ++i) {
    outside[i] = all[i].bytes < least_bytes || all[i].stays;
    if (!outside[i]) tenants.push_back(all[i]);
  }
  if (tenants.empty() || free.empty()) return {};

  // What gets no place needs room, too: in pieces that are too small for others, then in the largest.
  std::sort(free.begin(), free.end(), std::greater<>());
  int64_t room = MostBytes(all, outside, runs.size());
  room += room / 8;
  while (free.size() > 1 && free.back() < 4 * least_bytes) {
    room -= free.back();
    free.pop_back();
  }
  free.front() = std::max<int64_t>(0, free.front() - std::max<int64_t>(0, room)) / kArenaUnit * kArenaUnit;

  const std::vector<bool> every(tenants.size(), true);
  if (MostBytes(tenants, every, runs.size()) > std::accumulate(free.begin(), free.end(), int64_t{0})) return {};

  const auto rare_runs = static_cast<size_t>(rare * static_cast<double>(runs.size()));
  std::vector<std::vector<int>> meets(tenants.size());
  for (size_t i = 0; i < tenants.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!tenants[i].Meets(tenants[j], rare_runs)) continue;
      meets[i].push_back(static_cast<int>(j));
      meets[j].push_back(static_cast<int>(i));
    }
  }
  const auto bytes = [&](int i) { return std::pair(tenants[i].bytes, tenants[i].length); };
  const auto length = [&](int i) { return std::pair(tenants[i].length, tenants[i].bytes); };
  std::vector<int64_t> crowd(tenants.size(), 0);  // bytes that are there at some time of its life, itself included
  for (size_t i = 0; i < tenants.size(); ++i) {
    for (const int other : meets[i]) crowd[i] += tenants[other].bytes;
  }
  const auto crowded = [&](int i) { return std::pair(crowd[i], tenants[i].bytes); };
  const auto area = [&](int i) {
    return static_cast<double>(tenants[i].bytes) * static_cast<double>(tenants[i].length);
  };
  std::vector<Packed> packings;
  for (std::vector<int> order : {OrderBy(tenants.size(), bytes), OrderBy(tenants.size(), crowded),
                                 OrderBy(tenants.size(), length), OrderBy(tenants.size(), area)}) {
    for (int round = 0; round < kMostRounds; ++round) {
      Packed packed = Packing(tenants, meets, free).Run(order);
      // Those that found no gap are the first to choose in the next round.
      const auto found = std::stable_partition(order.begin(), order.end(), [&](int i) { return !packed.places[i]; });
      if (found != order.begin()) continue;
      packings.push_back(std::move(packed));
      break;
    }
  }
  std::stable_sort(packings.begin(), packings.end(),
                   [](const Packed& one, const Packed& other) { return one.Extent() < other.Extent(); });
  std::vector<Places> all_places;
  for (const Packed& packed : packings) all_places.push_back(PlacesOf(packed, tenants));
  return all_places;
}

}  // namespace lms
