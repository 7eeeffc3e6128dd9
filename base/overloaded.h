// The visitor of a variant, made of one lambda for each alternative:
//
//   std::visit(Overloaded{[](const A&) {…}, [](const B&) {…}}, variant);
#pragma once

namespace tutti {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace tutti
