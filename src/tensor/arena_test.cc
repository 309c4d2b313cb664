#include "tensor/arena.h"

#include <gtest/gtest.h>

#include "tensor/null_device.h"

namespace glint {
namespace {

TEST(Arena, scopes_give_memory_back_and_what_was_taken_stays_put) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  const Tensor kept = arena.take(DType::kF32, {4, 8});
  std::byte* inner = nullptr;
  {
    const Arena::Scope scope(arena);
    inner = arena.take(DType::kBF16, {3}).data;
    arena.take(DType::kU8, {64 << 20});  // larger than a chunk
  }
  const std::size_t held = arena.bytes_held();
  {
    const Arena::Scope scope(arena);
    EXPECT_EQ(arena.take(DType::kBF16, {3}).data, inner);
    arena.take(DType::kU8, {64 << 20});
  }
  EXPECT_EQ(arena.bytes_held(), held);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept.data) % 256, 0u);
  EXPECT_EQ(kept.row<float>(3)[7], 0);
}

TEST(Arena, padded_rows_lie_as_far_apart_as_the_device_says) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  const Tensor heads = arena.take_padded(DType::kBF16, {5, 8, 64});
  EXPECT_EQ(heads.stride[0], 8 * 64 + 32);
  EXPECT_EQ(heads.stride[1], 64);
  EXPECT_TRUE(heads.slice(0, 3, 1).flat().is_dense());
  EXPECT_GE(arena.take(DType::kU8, {1}).data, heads.data + 5 * heads.stride[0] * 2);
  EXPECT_TRUE(arena.take_padded(DType::kF32, {3, 100}).is_dense());

  NullDevice dense, like_host(device.get());
  Arena on_dense(dense), on_like(like_host);
  EXPECT_TRUE(on_dense.take_padded(DType::kBF16, {5, 8, 64}).is_dense());
  EXPECT_EQ(on_like.take_padded(DType::kBF16, {5, 8, 64}).stride[0], heads.stride[0]);
}

TEST(Arena, the_high_water_mark_counts_what_lives_at_the_same_time) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  arena.take(DType::kU8, {256});
  {
    const Arena::Scope scope(arena);
    arena.take(DType::kU8, {512});
  }
  {
    const Arena::Scope scope(arena);
    arena.take(DType::kU8, {1000});  // 1,024 with what aligns the next
  }
  EXPECT_EQ(arena.high_water(), 256u + 1024u);
}

TEST(Arena, under_retain_scopes_keep_their_tensors_until_it_ends) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  const Tensor before = arena.take(DType::kU8, {256});
  const auto take_inside = [&] {
    const Arena::Scope scope(arena);
    return arena.take(DType::kU8, {256}).data;
  };
  {
    const Arena::Retain retain(arena);
    const std::byte* const first = take_inside();
    {
      const Arena::Retain inner(arena);
      EXPECT_NE(take_inside(), first);
    }
    const std::byte* const after_inner = take_inside();
    EXPECT_NE(after_inner, first);
    EXPECT_NE(take_inside(), after_inner);
    EXPECT_EQ(arena.chunks().size(), 1u);
    EXPECT_EQ(arena.chunks()[0].data(), before.data);
  }
  EXPECT_EQ(take_inside(), before.data + 256);
  EXPECT_EQ(take_inside(), before.data + 256);
}

TEST(Arena, what_is_reserved_is_one_stretch) {
  const std::unique_ptr<Device> device = make_host_device();
  Arena arena(*device);
  ASSERT_TRUE(arena.reserve(std::size_t{96} << 20));
  const std::size_t held = arena.bytes_held();
  const Tensor a = arena.take(DType::kU8, {60 << 20}), b = arena.take(DType::kU8, {30 << 20});
  EXPECT_EQ(b.data - a.data, 60 << 20);
  EXPECT_EQ(arena.bytes_held(), held);
  arena.go_to({});
  ASSERT_TRUE(arena.reserve(std::size_t{64} << 20));  // there is as much
  EXPECT_EQ(arena.take(DType::kU8, {1}).data, a.data);
}

}  // namespace
}  // namespace glint
