// A whole cluster in one program links every folder's classes together. Two classes of one name and
// namespace are one to the linker: without optimisation it takes either's destructor for both, and
// a member of one is freed as if it were the other's. The lint refuses such names; this test links
// coordinator and worker as the service tests do and ends a `Worker`, the name that both have.
#include <gtest/gtest.h>

#include <type_traits>

#include "base/protocol.h"
#include "coordinator/fleet/membership.h"
#include "worker/service/worker.h"

namespace tutti::tests {
namespace {

TEST(LinkedNamesTest, TheCoordinatorsWorkerIsDestroyedByItsOwnDestructor) {
  static_assert(!std::is_same_v<coordinator::Worker, worker::Worker>);
  // Keeps worker.cc, with the other class's destructor, in the program.
  auto* volatile start = &worker::Worker::Start;
  ASSERT_NE(start, nullptr);
  coordinator::Membership membership({});
  v1::Hello hello;
  hello.set_worker_id("a worker with a name too long for a string to hold in itself");
  membership.Join(coordinator::LinkKey(1), hello, Instant());
  ASSERT_EQ(membership.size(), 1u);
  membership.Remove(coordinator::LinkKey(1));
  EXPECT_EQ(membership.size(), 0u);
}

}  // namespace
}  // namespace tutti::tests
