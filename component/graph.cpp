#include "graph.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <rclcpp/serialization.hpp>
#include <sensor_msgs/msg/compressed_image.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <sensor_msgs/msg/point_cloud2.hpp>
#include <vision_msgs/msg/detection2_d_array.hpp>
#include <vision_msgs/msg/detection3_d_array.hpp>

namespace det_post
{
namespace
{

using sensor_msgs::msg::CompressedImage;
using sensor_msgs::msg::Image;
using sensor_msgs::msg::PointCloud2;

template<typename Header>
int64_t stamp_ns(const Header & header)
{
  return int64_t{header.stamp.sec} * 1'000'000'000 + header.stamp.nanosec;
}

det_post_status deliver(Node & node, uint64_t number, const Image & message)
{
  const det_post_image image{
    message.width, message.height, message.step, message.encoding.c_str(),
    message.is_bigendian, {message.data.data(), message.data.size()}};
  const auto & header = message.header;
  return node.deliver(number, input(image, stamp_ns(header), header.frame_id.c_str()));
}

det_post_status deliver(Node & node, uint64_t number, const CompressedImage & message)
{
  const det_post_compressed_image image{
    message.format.c_str(), {message.data.data(), message.data.size()}};
  const auto & header = message.header;
  return node.deliver(number, input(image, stamp_ns(header), header.frame_id.c_str()));
}

det_post_status deliver(Node & node, uint64_t number, const PointCloud2 & message)
{
  std::vector<det_post_point_field> fields;
  fields.reserve(message.fields.size());
  for (const auto & field : message.fields) {
    fields.push_back({field.name.c_str(), field.offset, field.datatype, field.count});
  }
  const det_post_cloud cloud{
    message.width, message.height, message.point_step, message.row_step, message.is_bigendian,
    fields.data(), fields.size(), {message.data.data(), message.data.size()}};
  const auto & header = message.header;
  return node.deliver(number, input(cloud, stamp_ns(header), header.frame_id.c_str()));
}

rclcpp::SerializedMessage serialized(const uint8_t * message, std::size_t num_bytes)
{
  rclcpp::SerializedMessage copy(num_bytes);
  auto & raw = copy.get_rcl_serialized_message();
  std::memcpy(raw.buffer, message, num_bytes);
  raw.buffer_length = num_bytes;
  return copy;
}

/// Publishes messages of a type, each owned by its subscriber where that is in this process.
template<typename Message>
class Typed : public Publishing
{
public:
  explicit Typed(std::shared_ptr<rclcpp::Publisher<Message>> publisher)
  : publisher_(std::move(publisher)) {}

  void publish(const uint8_t * message, std::size_t num_bytes) override
  {
    const auto cdr = serialized(message, num_bytes);
    auto owned = std::make_unique<Message>();
    serialization_.deserialize_message(&cdr, owned.get());
    publisher_->publish(std::move(owned));
  }
  std::size_t num_subscribers() const override {return publisher_->get_subscription_count();}

private:
  rclcpp::Serialization<Message> serialization_;
  std::shared_ptr<rclcpp::Publisher<Message>> publisher_;
};

/// Publishes CDR of any installed type.
class Untyped : public Publishing
{
public:
  explicit Untyped(rclcpp::GenericPublisher::SharedPtr publisher)
  : publisher_(std::move(publisher)) {}

  void publish(const uint8_t * message, std::size_t num_bytes) override
  {
    publisher_->publish(serialized(message, num_bytes));
  }
  std::size_t num_subscribers() const override {return publisher_->get_subscription_count();}

private:
  rclcpp::GenericPublisher::SharedPtr publisher_;
};

template<typename Message>
std::shared_ptr<Publishing> typed(
  rclcpp_lifecycle::LifecycleNode & node, const std::string & topic, const rclcpp::QoS & qos)
{
  // Not the node's own kind of publisher, which is silent unless the node is active.
  return std::make_shared<Typed<Message>>(rclcpp::create_publisher<Message>(node, topic, qos));
}

/// What every node and every managed node of rclcpp publishes itself.
bool is_of_rclcpp(const std::string & topic)
{
  return topic == "/rosout" || topic == "/parameter_events" || topic == "~/transition_event";
}

rclcpp::QoS profile(const det_post_qos & from)
{
  rclcpp::QoS qos(from.depth);
  from.is_reliable ? qos.reliable() : qos.best_effort();
  from.is_transient_local ? qos.transient_local() : qos.durability_volatile();
  return qos;
}

Graph & graph(void * context) {return *static_cast<Graph *>(context);}

}  // namespace

template<typename Work>
det_post_status Graph::guarded(void * context, Work work) noexcept
{
  try {
    work(graph(context));
    return DET_POST_OK;
  } catch (const std::exception & error) {
    RCLCPP_ERROR(graph(context).node_.get_logger(), "%s", error.what());
    return DET_POST_ERROR_MIDDLEWARE;
  }
}

det_post_graph Graph::functions()
{
  det_post_graph functions{};
  functions.context = this;
  functions.resolve = [](void * context, const char * topic, char * name, std::size_t capacity) {
      std::string full;
      guarded(
        context, [&](Graph & graph) {
          full = graph.node_.get_node_topics_interface()->resolve_topic_name(topic);
        });
      const auto length = std::min(full.size(), capacity - 1);
      std::memcpy(name, full.data(), length);
      name[length] = '\0';
      return length;
    };
  functions.subscribe = [](void * context, uint64_t number, const char * topic,
      const char * type, det_post_qos qos) {
      return guarded(
        context, [&](Graph & graph) {graph.subscribe(number, topic, type, profile(qos));});
    };
  functions.unsubscribe = [](void * context, uint64_t number) {
      guarded(
        context, [&](Graph & graph) {
          const std::lock_guard<std::mutex> lock(graph.mutex_);
          graph.subscriptions_.erase(number);
        });
    };
  functions.num_publishers = [](void * context, uint64_t number) {
      std::size_t num = 0;
      guarded(
        context, [&](Graph & graph) {
          const auto subscription = graph.subscription(number);
          num = subscription ? subscription->get_publisher_count() : 0;
        });
      return num;
    };
  functions.advertise = [](void * context, uint64_t number, const char * topic,
      const char * type, det_post_qos qos) {
      return guarded(
        context, [&](Graph & graph) {graph.advertise(number, topic, type, profile(qos));});
    };
  functions.unadvertise = [](void * context, uint64_t number) {
      guarded(
        context, [&](Graph & graph) {
          const std::lock_guard<std::mutex> lock(graph.mutex_);
          graph.publishers_.erase(number);
        });
    };
  functions.num_subscribers = [](void * context, uint64_t number) {
      std::size_t num = 0;
      guarded(
        context, [&](Graph & graph) {
          const auto publisher = graph.publisher(number);
          num = publisher ? publisher->num_subscribers() : 0;
        });
      return num;
    };
  functions.publish = [](void * context, uint64_t number, const uint8_t * message,
      std::size_t num_bytes) {
      return guarded(
        context, [&](Graph & graph) {
          const auto publisher = graph.publisher(number);
          if (publisher) {publisher->publish(message, num_bytes);}
        });
    };
  return functions;
}

std::shared_ptr<Publishing> Graph::publisher(uint64_t number)
{
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = publishers_.find(number);
  return found == publishers_.end() ? nullptr : found->second;
}

rclcpp::SubscriptionBase::SharedPtr Graph::subscription(uint64_t number)
{
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = subscriptions_.find(number);
  return found == subscriptions_.end() ? nullptr : found->second;
}

void Graph::report(det_post_status status)
{
  // A message that is refused is counted by the node; anything else is a fault of this file.
  if (status != DET_POST_OK) {
    RCLCPP_ERROR(node_.get_logger(), "%s", receiver_.error_message().c_str());
  }
}

template<typename Message>
void Graph::subscribe_to(uint64_t number, const std::string & topic, const rclcpp::QoS & qos)
{
  rclcpp::SubscriptionOptions options;
  // The inputs of an executor with several threads do not wait for each other.
  options.callback_group =
    node_.create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive);
  auto subscription = rclcpp::create_subscription<Message>(
    node_, topic, qos,
    [this, number](std::shared_ptr<const Message> message) {
      report(deliver(receiver_, number, *message));
    }, options);
  const std::lock_guard<std::mutex> lock(mutex_);
  subscriptions_[number] = std::move(subscription);
}

void Graph::subscribe(
  uint64_t number, const std::string & topic, const std::string & type, const rclcpp::QoS & qos)
{
  if (type == "sensor_msgs/msg/Image") {return subscribe_to<Image>(number, topic, qos);}
  if (type == "sensor_msgs/msg/CompressedImage") {
    return subscribe_to<CompressedImage>(number, topic, qos);
  }
  if (type == "sensor_msgs/msg/PointCloud2") {
    return subscribe_to<PointCloud2>(number, topic, qos);
  }
  auto subscription = rclcpp::create_generic_subscription(
    node_.get_node_topics_interface(), topic, type, qos,
    [this, number](std::shared_ptr<const rclcpp::SerializedMessage> message) {
      const auto & raw = message->get_rcl_serialized_message();
      report(receiver_.deliver(number, raw.buffer, raw.buffer_length));
    });
  const std::lock_guard<std::mutex> lock(mutex_);
  subscriptions_[number] = std::move(subscription);
}

void Graph::advertise(
  uint64_t number, const std::string & topic, const std::string & type, const rclcpp::QoS & qos)
{
  std::shared_ptr<Publishing> publisher;
  if (is_of_rclcpp(topic)) {
  } else if (type == "vision_msgs/msg/Detection2DArray") {
    publisher = typed<vision_msgs::msg::Detection2DArray>(node_, topic, qos);
  } else if (type == "vision_msgs/msg/Detection3DArray") {
    publisher = typed<vision_msgs::msg::Detection3DArray>(node_, topic, qos);
  } else if (type == "sensor_msgs/msg/Image") {
    publisher = typed<Image>(node_, topic, qos);
  } else {
    publisher = std::make_shared<Untyped>(
      rclcpp::create_generic_publisher(node_.get_node_topics_interface(), topic, type, qos));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  publishers_[number] = std::move(publisher);
}

}  // namespace det_post
