#include "tensor/transfer.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Transfer, ValuesGoToADeviceAndBack) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  const std::vector<std::int32_t> values = {3, -1, 4, 1, -5, 9};
  const Tensor tensor = upload(values, {2, 3}, arena);
  EXPECT_EQ(tensor.dtype, DType::kI32);
  EXPECT_EQ(tensor.dim(0), 2);
  EXPECT_EQ(tensor.dim(1), 3);
  EXPECT_EQ(download<std::int32_t>(tensor, *device), values);
  EXPECT_EQ(download<std::int32_t>(tensor.slice(0, 1, 1), *device),
            (std::vector<std::int32_t>{1, -5, 9}));
}

}  // namespace
}  // namespace glint
