#include "runtime/device_groups.h"

#include <gtest/gtest.h>

#include "comm/null_comm.h"
#include "comm/staged_comm.h"
#include "ops/testing/late_ops.h"

namespace glint {
namespace {

struct Connections {
  int count = 0;
  bool fail = false;
};

class CountedComm final : public StagedComm {
 public:
  CountedComm(Comm& host, Device& device, Connections& made)
      : StagedComm(host, device), made_(made) {}
  Status connect() override {
    ++made_.count;
    return made_.fail ? Status(unavailable("no way")) : Status(Ok{});
  }

 private:
  Connections& made_;
};

class CountedOps final : public LateOps {
 public:
  CountedOps() : LateOps(nullptr) {}
  std::unique_ptr<DeviceComm> make_comm(Comm& host) override {
    return std::make_unique<CountedComm>(host, device(), groups[num_groups++]);
  }

  Connections groups[2];
  int num_groups = 0;
};

TEST(DeviceGroups, are_connected_once_and_all_though_one_fails) {
  CountedOps ops;
  NullComm tp(0, 2), ep(0, 4);
  Mesh mesh = {.tp = &tp, .ep = &ep};
  DeviceGroups groups = DeviceGroups::join(ops, mesh);
  EXPECT_EQ(mesh.tp->size(), 2);
  EXPECT_NE(mesh.tp, &tp);
  EXPECT_EQ(mesh.dp, &self_comm());
  ops.groups[0].fail = true;
  EXPECT_EQ(groups.connect_once().error().message, "no way");
  EXPECT_EQ(ops.groups[1].count, 1);  // others wait there
  ops.groups[0].fail = false;
  for (int time = 0; time < 2; ++time) EXPECT_TRUE(groups.connect_once().ok());
  EXPECT_EQ(ops.groups[0].count, 2);
  EXPECT_EQ(ops.groups[1].count, 2);
  EXPECT_TRUE(groups.connect().ok());
  EXPECT_EQ(ops.groups[0].count, 3);
}

}  // namespace
}  // namespace glint
