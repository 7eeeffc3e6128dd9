// Whose is a link? One table for all links of a worker, dialled and accepted alike: what comes over
// a link goes to its owner, and to nobody when the worker has let go of it.
//
// Thread: the executor's.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/link.h"

namespace tutti::worker {

// Names a link within one worker process; never used twice.
using LinkId = StrongInt<struct LinkIdTag, uint64_t>;

class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  virtual void OnFrame(LinkId link, v1::Frame frame, transport::Payload payload, Instant now) = 0;
  // The link is gone.
  virtual void OnClosed(LinkId link, const absl::Status& reason, Instant now) = 0;
  // Whether a step that waits takes what comes, or it is handled after the step.
  virtual bool serves_steps() const { return false; }
};

class LinkTable {
 public:
  // Null: nobody's.
  LinkOwner* Find(LinkId link) const {
    const auto found = owners_.find(link);
    return found == owners_.end() ? nullptr : found->second;
  }

 private:
  friend class OwnedLink;
  std::map<LinkId, LinkOwner*> owners_;
};

// One end of a link, which stands in the table for as long as somebody owns it.
class OwnedLink {
 public:
  OwnedLink() = default;
  // REQUIRES: the table, and the owner as long as it has the link, outlive this
  OwnedLink(LinkTable* table, LinkId id, LinkOwner* owner, std::shared_ptr<transport::Link> end)
      : table_(table), id_(id), end_(std::move(end)) {
    table_->owners_[id_] = owner;
  }
  OwnedLink(OwnedLink&& other) noexcept { *this = std::move(other); }
  OwnedLink& operator=(OwnedLink&& other) noexcept {
    reset();
    table_ = std::exchange(other.table_, nullptr);
    id_ = other.id_;
    end_ = std::move(other.end_);
    return *this;
  }
  ~OwnedLink() { reset(); }

  // Lets go of the link, which closes it unless somebody else holds its end.
  void reset() {
    if (table_ != nullptr) table_->owners_.erase(id_);
    table_ = nullptr;
    end_.reset();
  }
  // REQUIRES: there is a link
  void GiveTo(LinkOwner* owner) { table_->owners_[id_] = owner; }

  explicit operator bool() const { return end_ != nullptr; }
  transport::Link* get() const { return end_.get(); }
  transport::Link* operator->() const { return end_.get(); }
  const std::shared_ptr<transport::Link>& end() const { return end_; }
  LinkId id() const { return id_; }

 private:
  LinkTable* table_ = nullptr;  // null: no link
  LinkId id_;
  std::shared_ptr<transport::Link> end_;
};

}  // namespace tutti::worker
