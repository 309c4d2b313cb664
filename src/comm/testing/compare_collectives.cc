#include "comm/testing/compare_collectives.h"

#include <cstring>
#include <vector>

#include "base/random.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::int64_t kSizes[] = {0, 1, 5, 6144, 300'001};

// A tensor on the host and its copy on the device.
class Twin {
 public:
  Twin(Device& device, DType dtype, std::initializer_list<std::int64_t> dims)
      : device_(device), on_host(nullptr, dtype, dims), on_device(on_host) {
    bytes_.resize(std::max<std::size_t>(on_host.bytes().size(), 64));
    buffer_ = device.allocate(bytes_.size());
    on_host.data = bytes_.data();
    on_device.data = buffer_.data();
    copy_in();
  }
  void copy_in() { device_.copy_in(on_device.data, on_host.data, bytes_.size()); }
  void fill(const void* bytes) {
    std::memcpy(bytes_.data(), bytes, on_host.bytes().size());
    copy_in();
  }
  void fill(Random& random) {
    for (std::int64_t i = 0; i < on_host.size(); ++i) {
      const auto value = static_cast<float>(random.uniform() - 0.5) * 100;
      if (on_host.dtype == DType::kBF16) {
        on_host.ptr<BF16>()[i] = from_float<BF16>(value);
      } else {
        on_host.ptr<float>()[i] = value;
      }
    }
    copy_in();
  }
  bool agree() {
    std::vector<std::byte> bytes(bytes_.size());
    device_.copy_out(bytes.data(), on_device.data, bytes.size());
    return std::memcmp(bytes.data(), bytes_.data(), bytes.size()) == 0;
  }

 private:
  Device& device_;
  std::vector<std::byte> bytes_;
  Buffer buffer_;

 public:
  Tensor on_host, on_device;
};

class Comparison {
 public:
  Comparison(Comm& host, Comm& on_device, Device& device)
      : host_(host),
        on_device_(on_device),
        device_(device),
        random_(11, static_cast<std::uint64_t>(host.rank())) {}

  std::string run() {
    for (const std::int64_t size : kSizes) {
      sums(size);
      gathers(size);
      letters(size);
    }
    for (const int rows : {0, 1, 3, 250}) exchanges(rows);
    return differs_;
  }

 private:
  // The same call of both groups; then these tensors are compared.
  template <class Call>
  void compare(const std::string& name, Call&& call, Twin& out) {
    call(host_, [](Twin& x) { return x.on_host; });
    call(on_device_, [](Twin& x) { return x.on_device; });
    if (!out.agree() && differs_.empty()) {
      differs_ = str(name, " to ", out.on_host.describe(), " on rank ", host_.rank(), " of ",
                     host_.size(), " differs from the host's");
    }
  }

  void sums(std::int64_t size) {
    const int ranks = host_.size();
    Twin part(device_, DType::kF32, {size}), parts(device_, DType::kF32, {ranks * size, 2});
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      part.fill(random_);
      parts.fill(random_);
      Twin sum(device_, dtype, {size}), mine(device_, dtype, {size, 2});
      compare(
          "all_reduce", [&](Comm& c, auto of) { c.all_reduce(of(part), of(sum)); }, sum);
      compare(
          "reduce_scatter", [&](Comm& c, auto of) { c.reduce_scatter(of(parts), of(mine)); }, mine);
    }
    compare(
        "all_reduce in place", [&](Comm& c, auto of) { c.all_reduce(of(part), of(part)); }, part);
    compare(
        "reduce_scatter in place",
        [&](Comm& c, auto of) {
          c.reduce_scatter(of(parts), of(parts).slice(0, c.rank() * size, size));
        },
        parts);
  }

  void gathers(std::int64_t size) {
    Twin mine(device_, DType::kBF16, {size}), all(device_, DType::kBF16, {host_.size() * size});
    mine.fill(random_);
    compare(
        "all_gather", [&](Comm& c, auto of) { c.all_gather(of(mine), of(all)); }, all);
    all.fill(random_);
    compare(
        "all_gather in place",
        [&](Comm& c, auto of) { c.all_gather(of(all).slice(0, c.rank() * size, size), of(all)); },
        all);
  }

  // Down the line, and from each root.
  void letters(std::int64_t size) {
    Twin x(device_, DType::kF32, {size});
    for (int root = 0; root < host_.size(); ++root) {
      x.fill(random_);
      compare(
          "broadcast", [&](Comm& c, auto of) { c.broadcast(of(x), root); }, x);
    }
    Twin heard(device_, DType::kF32, {size});
    const auto line = [&](Comm& c, auto of) {
      if (c.rank() > 0) c.recv(of(heard), c.rank() - 1);
      if (c.rank() + 1 < c.size()) c.send(of(x), c.rank() + 1);
    };
    compare("recv", line, heard);
  }

  // Up to `rows` rows for each of nine columns, of which the second rank has none at all.
  void exchanges(int rows) {
    constexpr int kColumns = 9;
    const int ranks = host_.size(), rank = host_.rank();
    std::vector<std::int32_t> first, offsets;
    for (int r = 0; r <= ranks; ++r) first.push_back(kColumns * r / ranks);
    for (int s = 0; s < ranks; ++s) {
      std::int32_t at = 0;
      offsets.push_back(at);
      for (int e = 0; e < kColumns; ++e)
        offsets.push_back(at += s == 1 || rows == 0 ? 0 : (s * 7 + e) % (rows + 1));
    }
    Twin dealt(device_, DType::kI32, {ranks, kColumns + 1});
    dealt.fill(offsets.data());
    const std::int64_t own = offsets[static_cast<std::size_t>((rank + 1) * (kColumns + 1) - 1)];
    const std::int64_t most = std::int64_t{ranks} * kColumns * rows + 1;
    Twin x(device_, DType::kBF16, {most, 40}), got(device_, DType::kBF16, {most, 24});
    Twin order(device_, DType::kI32, {std::max(own, std::int64_t{1})});
    std::vector<std::int32_t> backwards;
    for (std::int64_t i = 0; i < order.on_host.size(); ++i)
      backwards.push_back(static_cast<std::int32_t>(order.on_host.size() - 1 - i));
    order.fill(backwards.data());
    x.fill(random_);
    got.fill(random_);  // beyond the rows that come nothing is written
    const auto call = [&](Comm& c, auto of) {
      c.exchange({.x = of(x).first(24),
                  .rows = of(order).slice(0, 0, own),
                  .offsets = of(dealt),
                  .first = first,
                  .out = of(got)});
    };
    compare("exchange", call, got);
    Twin back(device_, DType::kBF16, {most, 24});
    back.fill(random_);
    const auto again = [&](Comm& c, auto of) {
      c.exchange(
          {.x = of(got), .offsets = of(dealt), .first = first, .out = of(back), .backwards = true});
    };
    compare("exchange backwards", again, back);
  }

  Comm& host_;
  Comm& on_device_;
  Device& device_;
  Random random_;
  std::string differs_;
};

}  // namespace

std::string compare_collectives(Comm& host, Comm& on_device, Device& device) {
  return Comparison(host, on_device, device).run();
}

}  // namespace glint
