# The component det_post::DetPost over the shared library, where its packages are found.
set(missing "")
foreach(package ament_index_cpp lifecycle_msgs rclcpp rclcpp_components rclcpp_lifecycle sensor_msgs std_srvs
    vision_msgs)
  # Without a compiler the packages are not read: they are of C++.
  find_path(${package}_FOLDER NAMES package.xml PATH_SUFFIXES "share/${package}")
  if(NOT ${package}_FOLDER)
    list(APPEND missing "${package}")
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  message(STATUS "The component det_post::DetPost is left out: no ${missing}")
  return()
endif()

enable_language(C CXX)
find_package(ament_index_cpp REQUIRED)
find_package(lifecycle_msgs REQUIRED)
find_package(rclcpp REQUIRED)
find_package(rclcpp_components REQUIRED)
find_package(rclcpp_lifecycle REQUIRED)
find_package(sensor_msgs REQUIRED)
find_package(std_srvs REQUIRED)
find_package(vision_msgs REQUIRED)

add_library(det_post_component SHARED component/det_post.cpp component/graph.cpp component/log.cpp component/parameters.cpp)
add_dependencies(det_post_component det_post_library)
target_compile_features(det_post_component PRIVATE cxx_std_17)
target_compile_options(det_post_component PRIVATE -Wall -Wextra -Wpedantic)
target_include_directories(det_post_component PRIVATE include)
target_link_libraries(det_post_component PRIVATE "${target_dir}/release/libdet_post_c.so"
  ament_index_cpp::ament_index_cpp rclcpp::rclcpp rclcpp_components::component
  rclcpp_lifecycle::rclcpp_lifecycle ${lifecycle_msgs_TARGETS} ${sensor_msgs_TARGETS} ${std_srvs_TARGETS} ${vision_msgs_TARGETS})
set_target_properties(det_post_component PROPERTIES INSTALL_RPATH "$ORIGIN")
rclcpp_components_register_nodes(det_post_component "det_post::DetPost")
install(TARGETS det_post_component LIBRARY DESTINATION lib)
