// A list of members that are linked through themselves: what comes or goes takes no memory.
//
// A member that is in a line says by LinksOf(Member*) where its links are. It is in one line at
// most.
//
// Thread: any, of one owner.
#pragma once

namespace tutti::coordinator {

template <typename Member>
struct MemberLinks {
  Member* before = nullptr;
  Member* after = nullptr;
};

template <typename Member>
class MemberLine {
 public:
  bool empty() const { return first_ == nullptr; }
  // Null: it is empty.
  Member* first() const { return first_; }
  // REQUIRES: it is in no line
  void Append(Member* member) {
    LinksOf(member) = {.before = last_, .after = nullptr};
    (last_ == nullptr ? first_ : LinksOf(last_).after) = member;
    last_ = member;
  }
  // REQUIRES: it is here
  void Remove(Member* member) {
    const MemberLinks<Member> links = LinksOf(member);
    (links.before == nullptr ? first_ : LinksOf(links.before).after) = links.after;
    (links.after == nullptr ? last_ : LinksOf(links.after).before) = links.before;
    LinksOf(member) = {};
  }

 private:
  Member* first_ = nullptr;
  Member* last_ = nullptr;
};

}  // namespace tutti::coordinator
