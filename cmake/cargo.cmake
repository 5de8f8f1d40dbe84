# Runs cargo for CMakeLists.txt:
#   cmake -DCARGO=... -DVERB=build|library|test -DTARGET_DIR=... -DROS2=ON|OFF -DIDL_FILTER=a,b -DEXTRA="..." -P cargo.cmake
set(ENV{CARGO_TARGET_DIR} "${TARGET_DIR}")
if(VERB STREQUAL "library")
  set(arguments build --release -p det_post_capi)
  set(ROS2 OFF)
else()
  set(arguments ${VERB} --release)
endif()
if(VERB STREQUAL "build")
  list(APPEND arguments --bin det_post)
endif()
if(ROS2)
  list(APPEND arguments --features ros2)
  # r2r is built anew whenever these two change. Prefixes without headers, such
  # as this package's own, bring no messages and are left out, so that sourcing
  # the workspace costs no build.
  foreach(variable AMENT_PREFIX_PATH CMAKE_PREFIX_PATH)
    string(REPLACE ":" ";" prefixes "$ENV{${variable}}")
    set(kept "")
    foreach(prefix IN LISTS prefixes)
      if(IS_DIRECTORY "${prefix}/include")
        list(APPEND kept "${prefix}")
      endif()
    endforeach()
    list(REMOVE_DUPLICATES kept)
    list(JOIN kept ":" joined)
    set(ENV{${variable}} "${joined}")
  endforeach()
  if(IDL_FILTER)
    string(REPLACE "," ";" filter "${IDL_FILTER}")
    set(ENV{IDL_PACKAGE_FILTER} "${filter}")
  endif()
endif()
separate_arguments(extra UNIX_COMMAND "${EXTRA}")
# colcon marks every package that writes to stderr, where cargo writes its
# progress. So all goes to stdout, and again to stderr when cargo fails.
execute_process(COMMAND sh -c "exec \"$@\" 2>&1" sh "${CARGO}" ${arguments} ${extra}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ECHO_OUTPUT_VARIABLE)
if(NOT status EQUAL 0)
  message(NOTICE "${output}")
  message(FATAL_ERROR "cargo ${VERB} failed (${status})")
endif()
