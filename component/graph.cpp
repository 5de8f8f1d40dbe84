#include "graph.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <rcl/publisher.h>
#include <rmw/rmw.h>
#include <sensor_msgs/msg/compressed_image.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <sensor_msgs/msg/point_cloud2.hpp>
#include <std_srvs/srv/set_bool.hpp>
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

/// Publishes CDR of any installed type.
class Serialized : public Publishing
{
public:
  explicit Serialized(std::shared_ptr<rclcpp::PublisherBase> publisher)
  : publisher_(std::move(publisher)) {}

  void publish(const uint8_t * message, std::size_t num_bytes) override
  {
    const auto cdr = borrowed(message, num_bytes);
    const auto result =
      rcl_publish_serialized_message(publisher_->get_publisher_handle().get(), &cdr, nullptr);
    if (result != RCL_RET_OK && rclcpp::ok()) {
      rclcpp::exceptions::throw_from_rcl_error(result, "a message is not published");
    }
    // A context that shuts down is no error.
    rcl_reset_error();
  }
  std::size_t num_subscribers() const override {return publisher_->get_subscription_count();}

protected:
  /// A message as rcl takes it, which only reads it.
  static rcl_serialized_message_t borrowed(const uint8_t * message, std::size_t num_bytes)
  {
    auto cdr = rmw_get_zero_initialized_serialized_message();
    cdr.buffer = const_cast<uint8_t *>(message);
    cdr.buffer_length = num_bytes;
    cdr.buffer_capacity = num_bytes;
    return cdr;
  }

private:
  std::shared_ptr<rclcpp::PublisherBase> publisher_;
};

/// A publisher that can publish only within the process.
template<typename Message>
class Within : public rclcpp::Publisher<Message>
{
public:
  using rclcpp::Publisher<Message>::Publisher;

  void publish_within(std::unique_ptr<Message> message)
  {
    this->do_intra_process_ros_message_publish(std::move(message));
  }
};

/// Publishes CDR to other processes and, within this one, messages that a subscriber takes over.
template<typename Message>
class Typed : public Serialized
{
public:
  explicit Typed(std::shared_ptr<Within<Message>> publisher)
  : Serialized(publisher), publisher_(std::move(publisher)) {}

  void publish(const uint8_t * message, std::size_t num_bytes) override
  {
    const auto num_within = publisher_->get_intra_process_subscription_count();
    if (publisher_->get_subscription_count() > num_within) {
      Serialized::publish(message, num_bytes);
    }
    if (num_within == 0) {return;}
    const auto cdr = this->borrowed(message, num_bytes);
    auto owned = std::make_unique<Message>();
    const auto & type = rclcpp::get_message_type_support_handle<Message>();
    const auto result = rmw_deserialize(&cdr, &type, owned.get());
    if (result != RMW_RET_OK) {
      rclcpp::exceptions::throw_from_rcl_error(result, "a message does not deserialize");
    }
    publisher_->publish_within(std::move(owned));
  }

private:
  std::shared_ptr<Within<Message>> publisher_;
};

template<typename Message>
std::shared_ptr<Publishing> typed(
  rclcpp_lifecycle::LifecycleNode & node, const std::string & topic, const rclcpp::QoS & qos)
{
  // Not the node's own kind of publisher, which is silent unless the node is active.
  return std::make_shared<Typed<Message>>(
    rclcpp::create_publisher<Message, std::allocator<void>, Within<Message>>(node, topic, qos));
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
    // The reason; whether it is an error the node decides, and says.
    RCLCPP_INFO(graph(context).node_.get_logger(), "%s", error.what());
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
  functions.serve_switch = [](void * context, uint64_t number, const char * name) {
      return guarded(context, [&](Graph & graph) {graph.serve_switch(number, name);});
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
    RCLCPP_ERROR(node_.get_logger(), "%s", error_message().c_str());
  }
}

template<typename Message>
void Graph::subscribe_to(uint64_t number, const std::string & topic, const rclcpp::QoS & qos)
{
  rclcpp::SubscriptionOptions options;
  // The inputs of an executor with several threads do not wait for each other.
  options.callback_group =
    node_.create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive);
  // Not every rclcpp delivers messages for later subscribers within the process.
  if (qos.durability() != rclcpp::DurabilityPolicy::Volatile) {
    options.use_intra_process_comm = rclcpp::IntraProcessSetting::Disable;
  }
  auto subscription = rclcpp::create_subscription<Message>(
    node_, topic, qos,
    [this, number, callbacks = callbacks_](std::shared_ptr<const Message> message) {
      const auto running = callbacks.begin();
      if (running) {report(deliver(receiver_, number, *message));}
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
    [this, number, callbacks = callbacks_](std::shared_ptr<const rclcpp::SerializedMessage> message) {
      const auto running = callbacks.begin();
      if (!running) {return;}
      const auto & raw = message->get_rcl_serialized_message();
      report(receiver_.deliver(number, raw.buffer, raw.buffer_length));
    });
  const std::lock_guard<std::mutex> lock(mutex_);
  subscriptions_[number] = std::move(subscription);
}

void Graph::serve_switch(uint64_t number, const std::string & name)
{
  using std_srvs::srv::SetBool;
  auto service = node_.create_service<SetBool>(
    name, [this, number, callbacks = callbacks_](
      const std::shared_ptr<SetBool::Request> request,
      std::shared_ptr<SetBool::Response> response) {
      const auto running = callbacks.begin();
      if (!running) {return;}
      response->success = receiver_.set_switch(number, request->data) == DET_POST_OK;
      if (response->success) {
        on_switch_();
      } else {
        response->message = error_message();
      }
    });
  const std::lock_guard<std::mutex> lock(mutex_);
  switches_.push_back(std::move(service));
}

void Graph::advertise(
  uint64_t number, const std::string & topic, const std::string & type, const rclcpp::QoS & qos)
{
  std::shared_ptr<Publishing> publisher;
  // Not every rclcpp keeps messages within the process for later subscribers.
  const bool is_within = node_.get_node_base_interface()->get_use_intra_process_default() &&
    qos.durability() == rclcpp::DurabilityPolicy::Volatile;
  if (is_of_rclcpp(topic)) {
  } else if (is_within && type == "vision_msgs/msg/Detection2DArray") {
    publisher = typed<vision_msgs::msg::Detection2DArray>(node_, topic, qos);
  } else if (is_within && type == "vision_msgs/msg/Detection3DArray") {
    publisher = typed<vision_msgs::msg::Detection3DArray>(node_, topic, qos);
  } else if (is_within && type == "sensor_msgs/msg/Image") {
    publisher = typed<Image>(node_, topic, qos);
  } else {
    publisher = std::make_shared<Serialized>(
      rclcpp::create_generic_publisher(node_.get_node_topics_interface(), topic, type, qos));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  publishers_[number] = std::move(publisher);
}

}  // namespace det_post
