// The log of the library as the log of a node.
#ifndef LOG_HPP_
#define LOG_HPP_

#include <string>

#include <rclcpp/logger.hpp>

namespace det_post
{

/// Passes the log of the library to the logger of a node as long as this object exists, from the
/// level that the logger has when it is made. The library has one log in a process: of several
/// objects the first writes it.
class LogOfNode
{
public:
  explicit LogOfNode(const rclcpp::Logger & logger);
  LogOfNode(const LogOfNode &) = delete;
  LogOfNode & operator=(const LogOfNode &) = delete;
  ~LogOfNode();

private:
  void start();

  std::string logger_;
};

}  // namespace det_post

#endif  // LOG_HPP_
