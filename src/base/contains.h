// Whether a list has an item, as std::ranges::contains of C++23 says.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace glint {

template <class List, class Item>
bool contains(const List& list, const Item& item) {
  return std::ranges::find(list, item) != std::ranges::end(list);
}

inline bool contains(std::initializer_list<std::string_view> list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace glint
