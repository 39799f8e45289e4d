#include "search/offers.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/yaml_file.h"
#include "cluster/cluster_file.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/gpu_file.h"
#include "cluster/profile/profile_store.h"

namespace gpuplan {
namespace {

constexpr std::array<std::int64_t, 4> kCounts{1, 2, 4, 8};
constexpr std::array<std::int64_t, 3> kNodes{1, 2, 4};

constexpr const char* kOnDemand = "on-demand";
constexpr const char* kSpot = "spot";

/// A price of the user's file. Kinds: on-demand, spot.
struct OwnPrice {
  std::string gpu;
  GpuPrice price;
};

std::vector<OwnPrice> read_prices(const std::filesystem::path& path) {
  YamlFile file = YamlFile::read(path, kPricesLimit);
  std::vector<OwnPrice> all;
  for (Fields& row : file.top().list("prices")) {
    OwnPrice own;
    row.name("gpu", own.gpu, [](const std::string& name) {
      resolve_gpu(name);
      return name;
    });
    own.price.vendor = own.price.provider = row.text("vendor");
    own.price.usd_per_gpu_hour = row.number("usd_per_gpu_hour");
    own.price.kind = row.optional_text("kind").value_or(kOnDemand);
    own.price.date = row.optional_text("date").value_or("");
    own.price.source = row.optional_text("source").value_or(path.string());
    if (own.price.kind != kOnDemand && own.price.kind != kSpot)
      row.report("kind", fmt::format("'{}' is neither on-demand nor spot", own.price.kind));
    row.refuse_unknown();
    if (!own.gpu.empty()) all.push_back(std::move(own));
  }
  if (all.empty()) file.top().report("prices", "is missing: a list of gpu, vendor and usd_per_gpu_hour");
  file.finish("one row: - {gpu: h100-sxm, vendor: name, usd_per_gpu_hour: 2.5, kind: on-demand}");
  for (OwnPrice& own : all) own.gpu = resolve_gpu(own.gpu).id;
  return all;
}

/// "lambda on-demand" of "lambda 1x,2x on-demand": a row says how many GPUs it has.
std::string name_of(const GpuPrice& price) {
  std::string name;
  for (const std::string& word : split(offer_of(price), ' '))
    if (!is_counts(word)) name += (name.empty() ? "" : " ") + word;
  return name;
}

Offer offer_from(const GpuPrice& price) {
  return {.vendor = price.vendor,
          .name = name_of(price),
          .source = price.source,
          .date = price.date,
          .usd_per_gpu_hour = price.usd_per_gpu_hour,
          .is_spot = price.kind == kSpot,
          .spot = price.kind == kSpot ? spot_terms(price.vendor).value_or(SpotTerms{}) : SpotTerms{}};
}

/// The spot offer that goes with an on-demand one, where the vendor's terms are known.
std::optional<Offer> spot_of(const Offer& offer) {
  const std::optional<SpotTerms> terms = spot_terms(offer.vendor);
  if (!terms || offer.is_spot) return std::nullopt;
  Offer spot = offer;
  spot.is_spot = true;
  spot.name = offer.vendor + " " + kSpot;
  spot.spot = *terms;
  spot.usd_per_gpu_hour = *offer.usd_per_gpu_hour * terms->share_of_on_demand;
  return spot;
}

/// The last day ("2026-09-25"), else the last year ("2026") of a text; empty without one.
std::string last_day_in(const std::string& text) {
  const auto is_digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  for (const std::string_view shape : {std::string_view("0000-00-00"), std::string_view("2000")})
    for (std::size_t at = text.size() < shape.size() ? 0 : text.size() - shape.size() + 1; at-- > 0;) {
      const std::string_view word = std::string_view(text).substr(at, shape.size());
      const bool fits = std::equal(word.begin(), word.end(), shape.begin(), shape.end(),
                                   [](char c, char sign) { return sign == '0' ? c >= '0' && c <= '9' : c == sign; });
      if (fits && !is_digit(at + shape.size()) && (at == 0 || !is_digit(at - 1))) return std::string(word);
    }
  return "";
}

/// Collects machines and who offers them.
class Market {
 public:
  explicit Market(const RentalWish& wish) : wish_(wish) {}

  /// Adds the offers for a machine that `build` makes, if one is of use.
  template <class Build>
  void add(const std::string& flags, std::vector<Offer> offers, Build build) {
    if (wish_.takes_spot)
      for (std::size_t i = 0, n = offers.size(); i < n; ++i)
        if (auto spot = spot_of(offers[i])) offers.push_back(std::move(*spot));
    for (const Offer& offer : offers) vendors_.insert(offer.vendor);
    std::erase_if(offers, [&](const Offer& offer) {
      return (offer.is_spot && !wish_.takes_spot) || (wish_.vendor && squash(*wish_.vendor) != squash(offer.vendor));
    });
    if (offers.empty()) return;
    std::ranges::stable_sort(offers, [](const Offer& a, const Offer& b) {  // of known age first
      return std::pair(!a.is_dated(), *a.usd_per_gpu_hour) < std::pair(!b.is_dated(), *b.usd_per_gpu_hour);
    });
    Hardware hardware{.cluster = build(), .profile = {}, .flags = flags, .offers = std::move(offers)};
    hardware.profile = profile_of(hardware.cluster);
    hardware.cluster.price_per_gpu_hour = hardware.offers.front().usd_per_gpu_hour;
    hardware.cluster.price_source = hardware.offers.front().name;
    machines_.push_back(std::move(hardware));
  }

  std::vector<Hardware> take() {
    if (machines_.empty() && wish_.vendor) {
      const std::vector<std::string> known(vendors_.begin(), vendors_.end());
      throw InputError("--vendor", fmt::format("'{}' offers nothing that is known", *wish_.vendor),
                       did_you_mean(*wish_.vendor, known, fmt::format("known: {}", fmt::join(known, ", "))));
    }
    std::ranges::stable_sort(machines_, [](const Hardware& a, const Hardware& b) { return a.flags < b.flags; });
    return std::move(machines_);
  }

 private:
  const Profile& profile_of(const ClusterSpec& cluster) {
    const auto [at, is_new] = profiles_.try_emplace(cluster.gpus.front().id);
    std::vector<std::string> ignored;
    if (is_new) at->second = *profile_for(cluster, ignored);
    return at->second;
  }

  const RentalWish& wish_;
  std::vector<Hardware> machines_;
  std::map<std::string, Profile> profiles_;
  std::set<std::string> vendors_;
};

/// NxGPU: as many as one machine holds; boards also as several nodes.
void add_cards(Market& market, const GpuFile& gpu, const std::vector<GpuPrice>& prices) {
  const std::int64_t most = gpu.machine.gpus_per_node;
  std::vector<std::int64_t> counts;
  for (const std::int64_t count : kCounts)
    if (count <= most) counts.push_back(count);
  if (is_board(gpu.machine.fabric))
    for (const std::int64_t nodes : kNodes)
      if (nodes > 1) counts.push_back(nodes * most);
  for (const std::int64_t count : counts) {
    std::vector<Offer> offers;
    for (const GpuPrice& price : prices)
      if (price.kind != kSpot ? price.kind == kOnDemand && sells(price, count) : true)
        offers.push_back(offer_from(price));
    const std::string gpus = fmt::format("{}x{}", count / gpu.devices_per_card, gpu.spec.id);
    if (count % gpu.devices_per_card == 0)
      market.add("--gpus " + gpus, std::move(offers), [&] { return parse_gpus(gpus); });
  }
}

/// A machine of data/clusters that states a price; its vendor is the first word of its id.
void add_preset(Market& market, const std::string& id) {
  if (!read_cluster_file(data_dir() / "clusters" / (id + ".yaml")).usd_per_hour) return;
  const ClusterSpec one = load_cluster(id, {});
  if (!one.price_per_gpu_hour || one.gpus.front().is_plan_only) return;
  const Offer offer{.vendor = id.substr(0, id.find('-')),
                    .name = one.name,
                    .source = one.price_source,
                    .date = last_day_in(one.price_source),
                    .usd_per_gpu_hour = one.price_per_gpu_hour,
                    .is_spot = false,
                    .spot = {}};
  const bool has_network = one.inter.bandwidth.value > 0 && is_board(one.fabric);
  for (const std::int64_t nodes : kNodes) {
    if (nodes > 1 && !has_network) break;
    const std::int64_t count = nodes * one.num_gpus();
    const std::string number = nodes > 1 ? fmt::format(" --num-gpus {}", count) : "";
    market.add(fmt::format("--cluster {}{}", id, number), {offer}, [&] { return load_cluster(id, count); });
  }
}

}  // namespace

std::vector<Hardware> rentable(const RentalWish& wish) {
  Market market(wish);
  if (wish.prices) {
    std::map<std::string, std::vector<GpuPrice>> by_gpu;
    for (OwnPrice& own : read_prices(*wish.prices)) by_gpu[own.gpu].push_back(std::move(own.price));
    for (const auto& [id, prices] : by_gpu) add_cards(market, read_gpu_file(gpu_path(id)), prices);
    return market.take();
  }
  for (const GpuNames& names : list_gpu_names()) {
    const GpuFile gpu = read_gpu_file(gpu_path(names.id));
    if (!gpu.spec.is_plan_only) add_cards(market, gpu, gpu.prices);
  }
  for (const std::string& id : list_clusters()) add_preset(market, id);
  return market.take();
}

Hardware own_machine(const ClusterSpec& cluster, const Profile& profile, std::string flags,
                     std::optional<double> usd_per_gpu_hour) {
  Hardware hardware{.cluster = cluster, .profile = profile, .flags = std::move(flags), .offers = {}};
  if (usd_per_gpu_hour) hardware.cluster.price_per_gpu_hour = usd_per_gpu_hour;
  Offer offer;
  offer.name = hardware.cluster.price_source;
  offer.usd_per_gpu_hour = hardware.cluster.price_per_gpu_hour;
  hardware.offers = {std::move(offer)};
  return hardware;
}

}  // namespace gpuplan
