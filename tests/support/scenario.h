// Scenarios: what happens to the engine, and what it does about it, as text.
//
// A scenario is a list of blocks. A block is some commands, a line "----", and what the engine did;
// a blank line ends it. Lines that begin with # are comments. All commands of a block happen at one
// time and the engine then advances once, so a block is one turn of the engine's loop.
//
//   request r1 prompt=20 max=3
//   ----
//   w1 w2 <- plan 1, 20 rows: new s1 of 20; s1 0+20 blocks 0,1 sample
//
// Commands:
//   engine KEY=N...           makes a new engine; keys below
//   join W [KEY=VALUE...]     a worker says hello; memory=, class=, build=, cluster=, model=,
//   protocol= ready W... | done W...    the worker has loaded its shard | has done its next step
//   result [tokens=1,2,...]   the last stage has done its next step; a sequence whose token is
//   "nan" is poisoned. Without
//                             tokens, the token at position p is p
//   step [tokens=...]         all stages have done the oldest step; result and step take
//   pipeline=N, 0 if not said
//   beat W... | fail W WORDS  a beat with progress | the worker reports a failure
//   lost W WORDS              the worker's link closed
//   send W epoch=N KIND ...   a frame made by hand: done step=N | result step=N sequence=N
//   position=N token=N | ready |
//                             beat progress=N
//   request R prompt=N max=N [stop=1,2] [deadline=MS] [priority=N] [tenant=N] [like=R] [same=N]
//                             like=, same=: its first N tokens are those of the prompt of R and,
//                             after its end, of the answer to it when the token at position p is p
//   cancel R | stop_string R | drain
//   wait MS                   time passes, before the commands after it
//   status                    what an operator sees
//
// Thread: one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tutti::tests {

class Scenario {
 public:
  Scenario();
  ~Scenario();

  // Runs the commands of one block. The text says what the engine did, or what is wrong with the
  // commands.
  std::string RunBlock(std::string_view commands);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs a whole scenario and returns it with what the engine really did.
std::string RunScenario(std::string_view text);

}  // namespace tutti::tests
