#include "base/yaml.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

std::string json_of(std::string_view yaml) {
  const Result<Json> value = parse_yaml(yaml);
  return value.ok() ? dump_json(value.value()) : "error: " + value.error().message;
}

TEST(Yaml, maps_lists_and_scalars_become_json) {
  EXPECT_EQ(json_of("a: 1\nb:\n  c: [true, 0.9, fp8]\n  d: ~\nstream: \"10\"\n"),
            R"({"a":1,"b":{"c":[true,0.9,"fp8"],"d":null},"stream":"10"})");
  EXPECT_EQ(json_of(""), "null");
  EXPECT_EQ(json_of("x: .5\ny: -3\nz: 1e3\nw: 0x\nnan: nan\ninf: -inf\n"),
            R"({"x":0.5,"y":-3,"z":1000.0,"w":"0x","nan":"nan","inf":"-inf"})");
}

TEST(Yaml, integers_have_any_size_and_three_bases) {
  EXPECT_EQ(json_of("[18446744073709551615, -9223372036854775808, -9223372036854775809, +7, 007]"),
            "[18446744073709551615,-9223372036854775808,-9223372036854775809,7,7]");
  EXPECT_EQ(json_of("[0x5109, 0xFf, 0o17, 0xffffffffffffffff, +0000099999999999999999999, 000]"),
            "[20745,255,15,18446744073709551615,99999999999999999999,0]");
  EXPECT_EQ(json_of("[0o8, 0xg, -0x1, 0x-1, 0X1, 1_000, 12:30, +]"),
            R"(["0o8","0xg","-0x1","0x-1","0X1","1_000","12:30","+"])");
}

TEST(Yaml, what_could_explode_or_mislead_is_refused) {
  EXPECT_EQ(json_of("a: &x [1]\nb: *x\n"), "error: line 2: aliases (*name) are not supported");
  EXPECT_EQ(json_of("a: 1\na: 2\n"), "error: line 2: key \"a\" is repeated");
  EXPECT_EQ(json_of("? [1, 2]\n: 3\n"), "error: line 1: a key must be a text");
  EXPECT_EQ(json_of("a: !!python/object x\n").substr(0, 6), "error:");
  EXPECT_EQ(json_of("a: 1\n---\nb: 2\n"), "error: more than one document");
  EXPECT_EQ(json_of(std::string(40, '[')).substr(0, 6), "error:");
  EXPECT_EQ(json_of("a: [1, 2\nb: 3").substr(0, 6), "error:");
}

}  // namespace
}  // namespace glint
