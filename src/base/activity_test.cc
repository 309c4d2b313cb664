#include "base/activity.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/test_dir.h"

namespace glint {
namespace {

TEST(Activity, says_what_is_going_on) {
  Activity activity;
  EXPECT_EQ(activity.describe(), "idle");
  activity.set_step(7, 512);
  activity.begin("moe", 3);
  EXPECT_EQ(activity.describe(), "step 7, layer 3: moe, 512 tokens");
  activity.begin("sample");
  EXPECT_EQ(activity.describe(), "step 7, sample, 512 tokens");
  EXPECT_EQ(activity.describe_last(), activity.describe());
  activity.end();
  EXPECT_EQ(activity.describe(), "idle");
  EXPECT_EQ(activity.describe_last(), "step 7, 512 tokens");
}

TEST(Activity, a_recording_holds_what_happened_while_it_ran) {
  const TestDir dir;
  const std::string path = dir / "trace.json";
  Activity activity;
  activity.begin("before");
  activity.start_recording();
  activity.set_step(2, 5);
  activity.begin("embed");
  activity.begin("moe", 1);
  activity.end();
  activity.begin("open");
  ASSERT_TRUE(activity.write_recording(path).ok());
  activity.begin("after");

  const Json trace = read_json_file(path).value();
  const Json::Array& events = trace.find("traceEvents")->as_array();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].find("name")->as_string(), "embed");
  EXPECT_EQ(events[0].find("args")->find("layer"), nullptr);
  EXPECT_EQ(events[1].find("name")->as_string(), "moe");
  EXPECT_EQ(events[1].find("args")->find("layer")->as_int(), 1);
  EXPECT_EQ(events[1].find("args")->find("step")->as_int(), 2);
  EXPECT_EQ(events[1].find("args")->find("tokens")->as_int(), 5);
  double last = 0;
  for (const Json& event : events) {
    EXPECT_EQ(event.find("ph")->as_string(), "X");
    EXPECT_GE(event.find("ts")->as_double(), last);
    last = event.find("ts")->as_double() + event.find("dur")->as_double() - 0.002;
  }
}

TEST(Activity, an_operation_ends_when_its_device_has_done_it) {
  Activity activity;
  int waits = 0;
  activity.start_recording([&] { ++waits; });
  activity.begin("embed");
  EXPECT_EQ(waits, 0);
  activity.begin("moe", 1);
  EXPECT_EQ(waits, 1);
  activity.end();
  activity.end();
  EXPECT_EQ(waits, 2);
  activity.begin("open");
  {
    const Activity::Pause pause(activity);
    EXPECT_EQ(waits, 3);
    activity.begin("left out");
    activity.end();
  }
  EXPECT_EQ(waits, 3);
  activity.begin("head");
  const TestDir dir;
  const std::string path = dir / "trace.json";
  ASSERT_TRUE(activity.write_recording(path).ok());
  EXPECT_EQ(waits, 4);
  const Json trace = read_json_file(path).value();
  EXPECT_EQ(trace.find("traceEvents")->as_array().size(), 4u);
  activity.start_recording();
  activity.begin("embed");
  activity.end();
  EXPECT_EQ(waits, 4);
}

TEST(Activity, a_recording_that_cannot_be_written_fails) {
  Activity activity;
  activity.start_recording();
  EXPECT_FALSE(activity.write_recording("/nowhere/trace.json").ok());
  EXPECT_FALSE(activity.recording());
}

}  // namespace
}  // namespace glint
