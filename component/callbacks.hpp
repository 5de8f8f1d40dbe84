// Callbacks of an object that another thread may destroy.
#ifndef CALLBACKS_HPP_
#define CALLBACKS_HPP_

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

namespace det_post
{

/// The callbacks of an object. An executor of several threads does not wait for those of a node
/// that is unloaded: a callback keeps a copy of this, runs while it holds what `begin()` returns,
/// and does nothing where that is null.
class Callbacks
{
public:
  /// Begins a callback, which ends with the returned pointer; null once `end` is called.
  std::shared_ptr<void> begin() const
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->is_open) {return nullptr;}
    ++state_->num_running;
    return {state_.get(), [state = state_](void *) {
        const std::lock_guard<std::mutex> lock(state->mutex);
        --state->num_running;
        state->changed.notify_all();
      }};
  }

  /// Waits for the callbacks in progress; none begins any more. Not for a callback.
  void end() const
  {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->is_open = false;
    state_->changed.wait(lock, [this] {return state_->num_running == 0;});
  }

private:
  struct State
  {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_open = true;
    std::size_t num_running = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace det_post

#endif  // CALLBACKS_HPP_
