// Callbacks of the component, while their object is destroyed. Prints `no failures`, or what failed.

#include "expect.hpp"

#include "../../../component/callbacks.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace {

/// An object with a callback that calls another.
struct Owner
{
  std::vector<int> values = std::vector<int>(1000, 1);
  det_post::Callbacks callbacks;
  ~Owner() {callbacks.end();}

  auto sum() const
  {
    return [this, callbacks = callbacks] {
             const auto running = callbacks.begin();
             int sum = 0;
             for (size_t i = 0; running && i < values.size(); ++i) {sum += values[i];}
             return sum;
           };
  }

  auto twice() const
  {
    return [once = sum(), callbacks = callbacks]() -> int {
             const auto running = callbacks.begin();
             // The second finds nothing where the end begins between the two.
             return running && once() == 1000 ? 2000 : 0;
           };
  }
};

/// Threads in callbacks, which find all of the object or nothing.
void destroys_while_callbacks_run()
{
  for (size_t round = 0; round < 50; ++round) {
    std::optional<Owner> owner(std::in_place);
    std::atomic<size_t> num_begun{0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 3; ++i) {
      threads.emplace_back([call = owner->twice(), &num_begun] {
          int found = 2000;
          while (found == 2000) {
            found = call();
            ++num_begun;
          }
          expect(found == 0, "all of the object or nothing");
        });
    }
    while (num_begun < 10) {std::this_thread::yield();}
    owner.reset();
    for (auto & thread : threads) {thread.join();}
  }
}

/// The end waits for a callback in progress, and lets none begin.
void waits()
{
  const det_post::Callbacks callbacks;
  std::atomic<bool> is_running{false};
  std::atomic<bool> has_ended{false};
  std::thread callback([&, callbacks] {
      const auto running = callbacks.begin();
      is_running = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      has_ended = true;
    });
  while (!is_running) {std::this_thread::yield();}
  callbacks.end();
  expect(has_ended, "the callback has ended");
  expect(callbacks.begin() == nullptr, "none begins");
  callback.join();
}

}  // namespace

int main()
{
  destroys_while_callbacks_run();
  waits();
  if (num_failures == 0) {std::puts("no failures");}
  return num_failures == 0 ? 0 : 1;
}
