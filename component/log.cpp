#include "log.hpp"

#include <det_post.h>

#include <algorithm>
#include <list>
#include <mutex>

#include <rcutils/logging.h>

namespace det_post
{
namespace
{

std::mutex mutex;

/// The loggers of the process; the first writes the log. Guarded by `mutex`, which the function
/// of the log does not lock: ending a log waits for that function.
std::list<LogOfNode *> & logs()
{
  static std::list<LogOfNode *> logs;
  return logs;
}

/// The level of the library for a level of rcutils: the two have the same numbers.
uint32_t level_of(const std::string & logger)
{
  const int level = rcutils_logging_get_logger_effective_level(logger.c_str());
  if (level < RCUTILS_LOG_SEVERITY_DEBUG) {return DET_POST_LOG_INFO;}
  return std::min<uint32_t>(static_cast<uint32_t>(level) / 10 * 10, DET_POST_LOG_ERROR);
}

}  // namespace

LogOfNode::LogOfNode(const rclcpp::Logger & logger)
: logger_(logger.get_name())
{
  const std::lock_guard<std::mutex> lock(mutex);
  logs().push_back(this);
  if (logs().size() == 1) {start();}
}

LogOfNode::~LogOfNode()
{
  const std::lock_guard<std::mutex> lock(mutex);
  const bool was_first = logs().front() == this;
  logs().remove(this);
  if (!was_first) {return;}
  if (logs().empty()) {
    det_post_set_log(nullptr, nullptr, 0);
  } else {
    logs().front()->start();
  }
}

void LogOfNode::start()
{
  const auto write = [](void * logger, uint32_t level, const char * target, const char * message) {
      const rcutils_log_location_t location{target, "det_post", 0};
      rcutils_log(
        &location, static_cast<int>(level), static_cast<const std::string *>(logger)->c_str(),
        "%s", message);
    };
  // Where a program of Rust has a log of its own, that one stays.
  det_post_set_log(write, &logger_, level_of(logger_));
}

}  // namespace det_post
