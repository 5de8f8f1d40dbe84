// det_post as a component: the live node of the library in an rclcpp node, which gives it its
// parameters, its life cycle and its topics.
#include "graph.hpp"
#include "log.hpp"
#include "parameters.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <ament_index_cpp/get_package_prefix.hpp>
#include <ament_index_cpp/get_package_share_directory.hpp>
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
    log_(get_logger()), graph_(*this, live_, [this] {follow_parameters();})
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
    on_set_ = add_on_set_parameters_callback(
      [this](const std::vector<rclcpp::Parameter> & changes) {return set(changes);});
    // Loading networks takes seconds, in which the container serves its other components.
    if (starts_itself) {start_ = std::thread([this] {start();});}
  }

  ~DetPost() override
  {
    if (start_.joinable()) {start_.join();}
    live_.close();
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
    const auto & given = get_node_parameters_interface()->get_parameter_overrides();
    for (const auto & [name, value] : given) {
      if (name == "like") {
        configuration.like = value.get<std::string>();
        continue;
      }
      configuration.overrides.push_back(name + ":=" + yaml(in_package(name, value)));
    }
    const auto program = std::filesystem::path(ament_index_cpp::get_package_prefix("det_post")) /
      "lib" / "det_post" / "det_post";
    configuration.program = program.string();
    return configuration;
  }

  /// A relative path that is not below the current folder is below the package's share folder.
  static rclcpp::ParameterValue in_package(
    const std::string & name, const rclcpp::ParameterValue & value)
  {
    const std::string suffix = "_path";
    const bool is_path = name.size() > suffix.size() &&
      name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0 &&
      value.get_type() == rclcpp::PARAMETER_STRING;
    if (!is_path) {return value;}
    const std::filesystem::path path(value.get<std::string>());
    const std::filesystem::path share(ament_index_cpp::get_package_share_directory("det_post"));
    const auto below = share / path;
    if (path.is_absolute() || std::filesystem::exists(path) || !std::filesystem::exists(below)) {
      return value;
    }
    return rclcpp::ParameterValue(below.string());
  }

  CallbackReturn change(uint8_t transition)
  {
    if (live_.change(transition) == DET_POST_OK) {return CallbackReturn::SUCCESS;}
    RCLCPP_ERROR(get_logger(), "%s", live_.error_message().c_str());
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
    for (const auto & change : changes) {
      if (names_.count(change.get_name()) == 0) {continue;}
      assignments.push_back(change.get_name() + ":=" + yaml(change.get_parameter_value()));
    }
    rcl_interfaces::msg::SetParametersResult result;
    result.successful = assignments.empty() || live_.set_parameters(assignments) == DET_POST_OK;
    if (!result.successful) {result.reason = live_.error_message();}
    return result;
  }

  LogOfNode log_;
  /// Takes over parameters that the node has changed itself.
  void follow_parameters()
  {
    for (const auto & parameter : live_.parameters()) {
      const rclcpp::Parameter held(parameter.name, value(parameter));
      if (names_.count(parameter.name) > 0 && get_parameter(parameter.name) != held) {
        set_parameter(held);
      }
    }
  }

  Node live_;
  Graph graph_;
  std::set<std::string> names_;
  OnSetParametersCallbackHandle::SharedPtr on_set_;
  std::thread start_;
};

}  // namespace det_post

RCLCPP_COMPONENTS_REGISTER_NODE(det_post::DetPost)
