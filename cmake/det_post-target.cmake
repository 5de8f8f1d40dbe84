# The target det_post::det_post of an installed package: the shared library with the C ABI and its headers.
# Installed into PREFIX/share/det_post/cmake.
if(NOT TARGET det_post::det_post)
  get_filename_component(det_post_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(det_post::det_post SHARED IMPORTED)
  set_target_properties(det_post::det_post PROPERTIES
    IMPORTED_LOCATION "${det_post_prefix}/lib/libdet_post_c.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${det_post_prefix}/include")
  if(NOT EXISTS "${det_post_prefix}/lib/libdet_post_c.so")
    message(FATAL_ERROR "det_post was installed without its library: build it with -DDET_POST_LIBRARY=ON")
  endif()
endif()
