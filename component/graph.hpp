// The ROS graph of a live node of det_post: subscriptions and publishers of an rclcpp node behind
// the functions of `det_post_graph`.
#ifndef GRAPH_HPP_
#define GRAPH_HPP_

#include "callbacks.hpp"

#include <det_post.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <rclcpp/rclcpp.hpp>
#include <rclcpp_lifecycle/lifecycle_node.hpp>

namespace det_post
{

/// A publisher of serialized messages.
class Publishing
{
public:
  virtual ~Publishing() = default;
  /// Throws what rclcpp throws.
  virtual void publish(const uint8_t * message, std::size_t num_bytes) = 0;
  virtual std::size_t num_subscribers() const = 0;
};

/// The graph of an rclcpp node. Sensor data is passed on by pointer; the other inputs, which are
/// small, as CDR. Outputs, of any installed type, are published as the CDR that the node writes,
/// so that subscribers of other processes receive the bytes of the program; subscribers to
/// detections and images in the same process get separate messages.
class Graph
{
public:
  /// Messages go to `receiver`, which must be open before the node is executed. `on_switch` is
  /// called when a service has changed a parameter of it. Callbacks of the node are among `callbacks`.
  Graph(
    rclcpp_lifecycle::LifecycleNode & node, Node & receiver, const Callbacks & callbacks,
    std::function<void()> on_switch)
  : node_(node), receiver_(receiver), callbacks_(callbacks), on_switch_(std::move(on_switch)) {}
  Graph(const Graph &) = delete;
  Graph & operator=(const Graph &) = delete;

  /// The functions of this object, which must outlive their use.
  det_post_graph functions();

private:
  void subscribe(
    uint64_t number, const std::string & topic, const std::string & type, const rclcpp::QoS & qos);
  template<typename Message>
  void subscribe_to(uint64_t number, const std::string & topic, const rclcpp::QoS & qos);
  void advertise(
    uint64_t number, const std::string & topic, const std::string & type, const rclcpp::QoS & qos);
  void report(det_post_status status);
  void serve_switch(uint64_t number, const std::string & name);
  std::shared_ptr<Publishing> publisher(uint64_t number);
  rclcpp::SubscriptionBase::SharedPtr subscription(uint64_t number);

  /// Runs a function for C: what it throws is logged and becomes a status.
  template<typename Work>
  static det_post_status guarded(void * context, Work work) noexcept;

  rclcpp_lifecycle::LifecycleNode & node_;
  Node & receiver_;
  Callbacks callbacks_;
  std::function<void()> on_switch_;
  std::mutex mutex_;
  std::vector<rclcpp::ServiceBase::SharedPtr> switches_;
  std::map<uint64_t, rclcpp::SubscriptionBase::SharedPtr> subscriptions_;
  /// Null for topics that rclcpp itself publishes.
  std::map<uint64_t, std::shared_ptr<Publishing>> publishers_;
};

}  // namespace det_post

#endif  // GRAPH_HPP_
