// Parameters of det_post as parameters of rclcpp, and back as assignments `key:=value`.
#ifndef PARAMETERS_HPP_
#define PARAMETERS_HPP_

#include <det_post.hpp>

#include <string>

#include <rclcpp/parameter_value.hpp>
#include <rcl_interfaces/msg/parameter_descriptor.hpp>

namespace det_post
{

/// A value as YAML in one line: texts quoted, floating-point numbers with all their digits.
std::string yaml(const rclcpp::ParameterValue & value);

/// The present value of a parameter.
rclcpp::ParameterValue value(const Parameter & parameter);

/// The descriptor of a parameter. Types are checked by the node, which takes an integer for a
/// number.
rcl_interfaces::msg::ParameterDescriptor descriptor(const Parameter & parameter);

}  // namespace det_post

#endif  // PARAMETERS_HPP_
