#include <functional>
#include <vector>

#include "backends/cuda/comm/collectives.h"
#include "backends/cuda/testing/device_checks.h"
#include "backends/cuda/testing/device_values.h"
#include "comm/tree.h"

namespace glint::cuda {
namespace {

// The side of rank 0 in a group of two windows on this GPU, of which the other rank is lost.
class LostGroup {
 public:
  explicit LostGroup(Device& device)
      : device_(device),
        memory_(device.allocate(2 * kWindowBytes)),
        turns_(device.allocate(2 * kWindowBlocks * sizeof(std::uint32_t))),
        ended_(device.allocate_pinned(sizeof(std::uint32_t))) {
    GLINT_CHECK(memory_.data() && turns_.data() && ended_.data(), "no memory for a check");
    const std::vector<std::byte> zeros(turns_.bytes()), told(memory_.bytes(), std::byte{1});
    device.copy_in(turns_.data(), zeros.data(), zeros.size());
    device.copy_in(memory_.data(), told.data(), told.size());
    tell(0);
    *reinterpret_cast<std::uint32_t*>(ended_.data()) = 1;
  }
  // As if both ranks had told all blocks that they are in this turn.
  void tell(std::uint32_t turn) {
    const std::vector<std::uint32_t> flags(kFlagBytes / sizeof(turn), turn);
    for (int r = 0; r < 2; ++r) {
      device_.copy_in(memory_.data() + r * kWindowBytes, flags.data(), kFlagBytes);
    }
  }
  Windows windows() const {
    return {.at = {memory_.data(), memory_.data() + kWindowBytes},
            .turns = reinterpret_cast<std::uint32_t*>(turns_.data()),
            .ended = reinterpret_cast<const std::uint32_t*>(ended_.data()),
            .rank = 0,
            .size = 2};
  }

 private:
  Device& device_;
  Buffer memory_, turns_, ended_;
};

// Every call's, however many turns it takes, and also where the lost rank's are heard too late.
std::string a_group_that_has_ended_writes_zeros(Ops& ops) {
  constexpr std::int64_t kRows = 3000, kWidth = 1000;  // several turns
  constexpr std::int32_t kOffsets[2][3] = {{0, 1000, 2000}, {0, 1500, 3000}};
  auto& device = static_cast<CudaDevice&>(ops.device());
  LostGroup group(device);
  const Windows windows = group.windows();
  const Values<float> x(device, 2 * kRows, kWidth, 42), out(device, 2 * kRows, kWidth, 43);
  const Buffer dealt = device.allocate(sizeof kOffsets);
  device.copy_in(dealt.data(), kOffsets, sizeof kOffsets);
  const std::int32_t first[] = {0, 1, 2};
  const ExchangeArgs exchange = {.x = x.tensor(),
                                 .offsets = Tensor(dealt.data(), DType::kI32, {2, 3}),
                                 .first = first,
                                 .out = out.tensor().slice(0, 0, 2500)};
  ExchangeArgs back = exchange;
  back.out = out.tensor().slice(0, 0, 2000), back.backwards = true;
  const Tensor half = x.tensor().slice(0, 0, kRows), sum = out.tensor().slice(0, 0, kRows);
  const struct {
    const char* name;
    std::function<void(const Gpu&)> run;
    Tensor written;
  } calls[] = {
      {"all_gather", [&](const Gpu& gpu) { launch_all_gather(windows, half, out.tensor(), gpu); },
       out.tensor()},
      {"broadcast", [&](const Gpu& gpu) { launch_broadcast(windows, sum, 1, gpu); }, sum},
      {"exchange", [&](const Gpu& gpu) { launch_exchange(windows, exchange, gpu); }, exchange.out},
      {"exchange backwards", [&](const Gpu& gpu) { launch_exchange(windows, back, gpu); },
       back.out},
      {"all_reduce, one shot",
       [&](const Gpu& gpu) { launch_all_reduce(windows, half, sum, gpu, Shots::kOne); }, sum},
      {"all_reduce, two shots",
       [&](const Gpu& gpu) { launch_all_reduce(windows, half, sum, gpu, Shots::kTwo); }, sum},
      {"reduce_scatter",
       [&](const Gpu& gpu) { launch_reduce_scatter(windows, x.tensor(), sum, gpu); }, sum}};
  for (const bool late : {false, true}) {
    if (late) group.tell(1 << 20);
    for (const auto& call : calls) {
      const Values<float> old(device, 2 * kRows, kWidth, 44);
      device.copy(out.tensor().data, old.tensor().data, old.tensor().bytes().size());
      device.run(call.name, call.run);
      for (const std::byte b : bytes_of(device, call.written)) {
        if (b != std::byte{}) return str(call.name, late ? " hears the lost" : " is not of zeros");
      }
    }
  }
  return "";
}

// Groups of more GPUs than windows are made for, as several nodes are.
std::string parts_of_any_number_add_up_as_the_tree_has_it(Ops& ops) {
  constexpr std::int64_t kSize = 1500;
  auto& device = static_cast<CudaDevice&>(ops.device());
  for (const int count : {1, 2, 7, 8, 9, 16, 21}) {
    const Values<float> parts(device, count, kSize, 23), sum(device, 1, kSize, 24);
    device.run("add_parts", [&](const Gpu& gpu) {
      launch_add_parts(parts.tensor().ptr<float>(), count, kSize, sum.vector(), gpu);
    });
    std::vector<float> given(static_cast<std::size_t>(count * kSize)), got(kSize);
    device.copy_out(given.data(), parts.tensor().data, given.size() * sizeof(float));
    device.copy_out(got.data(), sum.tensor().data, got.size() * sizeof(float));
    for (std::int64_t i = 0; i < kSize; ++i) {
      const float expected = tree_sum(
          count, [&](int part) { return given[static_cast<std::size_t>(part * kSize + i)]; });
      if (got[static_cast<std::size_t>(i)] != expected)
        return str("the sum of ", count, " parts differs from the tree's at ", i);
    }
  }
  return "";
}

}  // namespace

std::vector<DeviceCheck> group_checks() {
  return {{"a_group_that_has_ended_writes_zeros", a_group_that_has_ended_writes_zeros},
          {"parts_of_any_number_add_up_as_the_tree_has_it",
           parts_of_any_number_add_up_as_the_tree_has_it}};
}

}  // namespace glint::cuda
