// det_post as a component: the live node of the library in an rclcpp node, which gives it its
// parameters, its life cycle and its topics.
#include "callbacks.hpp"
#include "graph.hpp"
#include "log.hpp"
#include "parameters.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

// Humble has only the second, Rolling only the first.
#if __has_include(<ament_index_cpp/get_package_share_path.hpp>)
#include <ament_index_cpp/get_package_share_path.hpp>
#else
#include <ament_index_cpp/get_package_share_directory.hpp>
#endif
#include <lifecycle_msgs/msg/state.hpp>
#include <lifecycle_msgs/msg/transition.hpp>
#include <rclcpp_components/register_node_macro.hpp>

namespace det_post
{

/// The node. Its topics, parameters, diagnostics and life cycle are those of the program
/// `det_post run`; networks are loaded when it is configured. The parameter `like` names the
/// package whose parameters are given.
class DetPost : public rclcpp_lifecycle::LifecycleNode
{
public:
  /// Reads the parameters; throws for one that is not known, missing or out of range.
  explicit DetPost(const rclcpp::NodeOptions & options)
  : LifecycleNode("det_post", options),
    log_(get_logger()), graph_(*this, live_, callbacks_, [this] {follow_parameters();})
  {
    live_ = Node(configuration(), graph_.functions());
    bool starts_itself = true;
    for (const auto & parameter : live_.parameters()) {
      const auto held = value(parameter);
      if (std::string(parameter.name) == "autostart") {starts_itself = held.get<bool>();}
      // rclcpp has declared those of every node.
      if (has_parameter(parameter.name)) {continue;}
      declare_parameter(parameter.name, held, descriptor(parameter), true);
      names_.insert(parameter.name);
    }
    follow_soon_ = create_wall_timer(
      std::chrono::milliseconds(1), [this, callbacks = callbacks_] {
        const auto running = callbacks.begin();
        if (!running) {return;}
        follow_soon_->cancel();
        follow_parameters();
      });
    follow_soon_->cancel();
    on_set_ = add_on_set_parameters_callback(
      [this, callbacks = callbacks_](const std::vector<rclcpp::Parameter> & changes) {
        const auto running = callbacks.begin();
        return running ? set(changes) : refusal("the node is being unloaded");
      });
    // Loading networks takes seconds, in which the container serves its other components.
    if (starts_itself) {start_ = std::thread([this] {start();});}
  }

  ~DetPost() override
  {
    if (start_.joinable()) {start_.join();}
    callbacks_.end();
  }

protected:
  CallbackReturn on_configure(const rclcpp_lifecycle::State &) override
  {
    return change(lifecycle_msgs::msg::Transition::TRANSITION_CONFIGURE);
  }
  CallbackReturn on_activate(const rclcpp_lifecycle::State &) override
  {
    return change(lifecycle_msgs::msg::Transition::TRANSITION_ACTIVATE);
  }
  CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override
  {
    return change(lifecycle_msgs::msg::Transition::TRANSITION_DEACTIVATE);
  }
  CallbackReturn on_cleanup(const rclcpp_lifecycle::State &) override
  {
    return change(lifecycle_msgs::msg::Transition::TRANSITION_CLEANUP);
  }
  CallbackReturn on_shutdown(const rclcpp_lifecycle::State &) override
  {
    return change(lifecycle_msgs::msg::Transition::TRANSITION_UNCONFIGURED_SHUTDOWN);
  }

private:
  Configuration configuration()
  {
    Configuration configuration;
    configuration.node_name = get_name();
    configuration.node_namespace = get_namespace();
    // rclcpp has joined the sections of the files for this node and for many nodes, whose other
    // keys are ignored with a warning.
    configuration.text = "/**:\n  ros__parameters:\n";
    const auto & given = get_node_parameters_interface()->get_parameter_overrides();
    for (const auto & [name, value] : given) {
      if (name == "like") {
        configuration.like = value.get<std::string>();
        continue;
      }
      configuration.text += "    " + yaml(rclcpp::ParameterValue(name)) + ": " +
        yaml(value) + "\n";
    }
    const auto prefix = share().parent_path().parent_path();
    const auto program = prefix / "lib" / "det_post" / "det_post";
    configuration.program = program.string();
    return configuration;
  }

  /// The package's share folder, `share/det_post` of the prefix where it is installed.
  static std::filesystem::path share()
  {
#if __has_include(<ament_index_cpp/get_package_share_path.hpp>)
    return ament_index_cpp::get_package_share_path("det_post");
#else
    return ament_index_cpp::get_package_share_directory("det_post");
#endif
  }

  CallbackReturn change(uint8_t transition)
  {
    const auto running = callbacks_.begin();
    if (!running) {return CallbackReturn::FAILURE;}
    if (live_.change(transition) == DET_POST_OK) {return CallbackReturn::SUCCESS;}
    RCLCPP_ERROR(get_logger(), "%s", error_message().c_str());
    return CallbackReturn::FAILURE;
  }

  void start()
  {
    using lifecycle_msgs::msg::State;
    if (configure().id() == State::PRIMARY_STATE_INACTIVE) {activate();}
  }

  rcl_interfaces::msg::SetParametersResult set(const std::vector<rclcpp::Parameter> & changes)
  {
    std::vector<std::string> assignments;
    bool unsets = false;
    for (const auto & change : changes) {
      if (names_.count(change.get_name()) == 0) {continue;}
      assignments.push_back(change.get_name() + ":=" + yaml(change.get_parameter_value()));
      unsets |= change.get_type() == rclcpp::PARAMETER_NOT_SET;
    }
    if (!assignments.empty() && live_.set_parameters(assignments) != DET_POST_OK) {
      return refusal(error_message());
    }
    // rclcpp undeclares a parameter that is unset, once its callbacks have accepted that; they may
    // not declare it.
    if (unsets) {follow_soon_->reset();}
    rcl_interfaces::msg::SetParametersResult result;
    result.successful = true;
    return result;
  }

  static rcl_interfaces::msg::SetParametersResult refusal(const std::string & reason)
  {
    rcl_interfaces::msg::SetParametersResult result;
    result.successful = false;
    result.reason = reason;
    return result;
  }

  /// Takes over parameters that the node has changed itself, and declares those that rclcpp has
  /// undeclared.
  void follow_parameters() noexcept
  {
    try {
      for (const auto & parameter : live_.parameters()) {
        if (names_.count(parameter.name) == 0) {continue;}
        const rclcpp::Parameter held(parameter.name, value(parameter));
        if (!has_parameter(parameter.name)) {
          declare_parameter(
            parameter.name, held.get_parameter_value(), descriptor(parameter), true);
        } else if (get_parameter(parameter.name) != held) {
          set_parameter(held);
        }
      }
    } catch (const std::exception & error) {
      RCLCPP_ERROR(get_logger(), "parameters: %s", error.what());
    }
  }

  LogOfNode log_;
  Callbacks callbacks_;
  // The node uses the graph until it is closed.
  Graph graph_;
  Node live_;
  std::set<std::string> names_;
  rclcpp::TimerBase::SharedPtr follow_soon_;
  OnSetParametersCallbackHandle::SharedPtr on_set_;
  std::thread start_;
};

}  // namespace det_post

RCLCPP_COMPONENTS_REGISTER_NODE(det_post::DetPost)
