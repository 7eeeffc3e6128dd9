#include "coordinator/service/running_grammars.h"

#include "absl/strings/str_cat.h"
#include "door/door.h"

namespace tutti::coordinator {

// Counts for nothing until it is told that it does.
class RunningGrammars::Entry {
 public:
  Entry(std::shared_ptr<RunningGrammars> of, Key key) : of_(std::move(of)), key_(std::move(key)) {}
  ~Entry() {
    if (counts_) of_->Remove(key_);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  const Key& key() const { return key_; }
  void Count() { counts_ = true; }

 private:
  const std::shared_ptr<RunningGrammars> of_;
  const Key key_;
  bool counts_ = false;
};

absl::StatusOr<std::shared_ptr<const void>> RunningGrammars::Add(const Hash128& tenant,
                                                                 const std::string& digest,
                                                                 int64_t bytes) {
  // All memory is there before anything is counted.
  const auto entry =
      std::make_shared<Entry>(shared_from_this(), Key{{tenant.high, tenant.low}, digest});
  const Key& key = entry->key();
  const MutexLock lock(&mutex_);
  const auto found = running_.find(key);
  if (found != running_.end()) {
    ++found->second.requests;
  } else {
    const auto of_tenant = shares_.find(key.first);
    const Share has = of_tenant == shares_.end() ? Share() : of_tenant->second;
    if (has.grammars >= limits_.tenant || has.bytes + bytes > limits_.tenant_bytes ||
        static_cast<int64_t>(running_.size()) >= limits_.all ||
        bytes_ + bytes > limits_.all_bytes) {
      put_off_.Add();
      return door::Overloaded(absl::StrCat(
          "grammar: ", has.grammars, " different grammars of this client and ", running_.size(),
          " of all are under way, ", bytes_, " bytes of them; the limits are ", limits_.tenant,
          " (", limits_.tenant_bytes, " bytes) and ", limits_.all, " (", limits_.all_bytes, ")"));
    }
    std::map<std::pair<uint64_t, uint64_t>, Share> own = {{key.first, Share()}};
    running_.emplace(key, Running{.requests = 1, .bytes = bytes});
    shares_.merge(own);
    Share& share = shares_.find(key.first)->second;
    ++share.grammars;
    share.bytes += bytes;
    bytes_ += bytes;
  }
  ++requests_;
  entry->Count();
  return std::shared_ptr<const void>(entry);
}

void RunningGrammars::Remove(const Key& key) {
  const MutexLock lock(&mutex_);
  --requests_;
  const auto found = running_.find(key);
  if (--found->second.requests > 0) return;
  const auto share = shares_.find(key.first);
  share->second.bytes -= found->second.bytes;
  bytes_ -= found->second.bytes;
  if (--share->second.grammars == 0) shares_.erase(share);
  running_.erase(found);
}

void RunningGrammars::Write(metrics::Exposition* to) const {
  using metrics::Kind;
  int64_t requests = 0, grammars = 0;
  {
    const MutexLock lock(&mutex_);
    requests = requests_;
    grammars = static_cast<int64_t>(running_.size());
  }
  to->Single("tutti_grammar_requests", Kind::kGauge, "Requests under way by a grammar.",
             static_cast<double>(requests));
  to->Single("tutti_grammars", Kind::kGauge, "Different grammars of them, each tenant's by itself.",
             static_cast<double>(grammars));
  to->Begin("tutti_grammars_refused_total", Kind::kCounter,
            "Grammars refused: for what they are, or because too many are under way.");
  to->Sample({{"why", "grammar"}}, refused_.value());
  to->Sample({{"why", "limit"}}, put_off_.value());
}

}  // namespace tutti::coordinator
