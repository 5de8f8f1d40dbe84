#include "parameters.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

namespace det_post
{
namespace
{

std::string yaml(bool flag) {return flag ? "true" : "false";}

std::string yaml(int64_t integer) {return std::to_string(integer);}

std::string yaml(uint8_t byte) {return std::to_string(byte);}

std::string yaml(double number)
{
  if (std::isnan(number)) {return ".nan";}
  if (std::isinf(number)) {return number > 0.0 ? ".inf" : "-.inf";}
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  const std::string digits(text);
  // 1 is an integer, 1e10 a text.
  const auto exponent = digits.find('e');
  if (digits.find('.') != std::string::npos) {return digits;}
  return digits.substr(0, exponent) + ".0" +
         (exponent == std::string::npos ? "" : digits.substr(exponent));
}

std::string yaml(const std::string & text)
{
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", static_cast<unsigned>(c));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

template<typename T>
std::string yaml(const std::vector<T> & values)
{
  std::string list;
  for (const auto & value : values) {
    list += (list.empty() ? "" : ", ") + yaml(static_cast<T>(value));
  }
  return "[" + list + "]";
}

}  // namespace

std::string yaml(const rclcpp::ParameterValue & value)
{
  switch (value.get_type()) {
    case rclcpp::PARAMETER_BOOL: return yaml(value.get<bool>());
    case rclcpp::PARAMETER_INTEGER: return yaml(value.get<int64_t>());
    case rclcpp::PARAMETER_DOUBLE: return yaml(value.get<double>());
    case rclcpp::PARAMETER_STRING: return yaml(value.get<std::string>());
    case rclcpp::PARAMETER_BYTE_ARRAY: return yaml(value.get<std::vector<uint8_t>>());
    case rclcpp::PARAMETER_BOOL_ARRAY: return yaml(value.get<std::vector<bool>>());
    case rclcpp::PARAMETER_INTEGER_ARRAY: return yaml(value.get<std::vector<int64_t>>());
    case rclcpp::PARAMETER_DOUBLE_ARRAY: return yaml(value.get<std::vector<double>>());
    case rclcpp::PARAMETER_STRING_ARRAY: return yaml(value.get<std::vector<std::string>>());
    case rclcpp::PARAMETER_NOT_SET: break;
  }
  return "null";
}

rclcpp::ParameterValue value(const Parameter & parameter)
{
  const auto num = parameter.num_values;
  switch (parameter.value_type) {
    case rclcpp::PARAMETER_BOOL: return rclcpp::ParameterValue(parameter.flag != 0);
    case rclcpp::PARAMETER_INTEGER: return rclcpp::ParameterValue(parameter.integer);
    case rclcpp::PARAMETER_DOUBLE: return rclcpp::ParameterValue(parameter.number);
    case rclcpp::PARAMETER_STRING: return rclcpp::ParameterValue(parameter.text);
    case rclcpp::PARAMETER_DOUBLE_ARRAY:
      return rclcpp::ParameterValue(
        std::vector<double>(parameter.numbers, parameter.numbers + num));
    case rclcpp::PARAMETER_STRING_ARRAY:
      return rclcpp::ParameterValue(
        std::vector<std::string>(parameter.texts, parameter.texts + num));
    default: return rclcpp::ParameterValue();
  }
}

rcl_interfaces::msg::ParameterDescriptor descriptor(const Parameter & parameter)
{
  rcl_interfaces::msg::ParameterDescriptor descriptor;
  descriptor.name = parameter.name;
  descriptor.description = parameter.description;
  descriptor.additional_constraints = parameter.allowed;
  descriptor.read_only = parameter.is_read_only != 0;
  descriptor.dynamic_typing = true;
  return descriptor;
}

}  // namespace det_post
