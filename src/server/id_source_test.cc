#include "server/id_source.h"

#include <gtest/gtest.h>

#include <vector>

namespace glint {
namespace {

TEST(IdSource, ids_differ) {
  IdSource ids;
  EXPECT_EQ(ids.hex(24).size(), 24u);
  EXPECT_NE(ids.hex(24), ids.hex(24));
  EXPECT_NE(ids.number(), IdSource().number());
}

TEST(IdSource, ids_of_clients_are_taken_if_harmless) {
  EXPECT_EQ(harmless_id("abc-123_x:y"), "abc-123_x:y");
  const std::vector<std::string> harmful = {"",        "a b", "a\nb", "\"x", std::string(129, 'a'),
                                            "\xc3\xa9"};
  for (const std::string& id : harmful) EXPECT_FALSE(harmless_id(id)) << id;
}

}  // namespace
}  // namespace glint
