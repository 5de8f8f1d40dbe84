// A live node in a graph of this program: what it subscribes to, advertises and publishes, its
// life cycle, its parameters, and misuse. Prints `no failures`, or what failed.
// Argument: a parameter file with the channels `camera` and `lidar`.

#include "expect.hpp"

#include <det_post.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Bytes = std::vector<uint8_t>;

/// A graph in memory with one peer on every topic.
struct Graph
{
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, std::string> subscriptions, publishers, switches;
  std::set<std::string> types;
  std::map<std::string, std::vector<Bytes>> published;
  bool refuses = false;
  /// A package whose messages this graph does not know.
  std::string unknown_package = "none";
  /// Whether its node is closed, and calls since then.
  std::atomic<bool> is_closed{false};
  std::atomic<size_t> num_late{0};

  det_post_graph functions()
  {
    det_post_graph graph{};
    graph.context = this;
    graph.resolve = [](void * context, const char * topic, char * name, size_t capacity) {
        of(context);
        const auto full = topic[0] == '~' ? "/node" + std::string(topic + 1) : std::string(topic);
        std::snprintf(name, capacity, "%s", full.c_str());
        return full.size();
      };
    graph.subscribe = [](void * context, uint64_t number, const char * topic, const char * type,
        det_post_qos) {
        return of(context).add(of(context).subscriptions, number, topic, type);
      };
    graph.advertise = [](void * context, uint64_t number, const char * topic, const char * type,
        det_post_qos) {
        return of(context).add(of(context).publishers, number, topic, type);
      };
    graph.unsubscribe = [](void * context, uint64_t number) {
        of(context).remove(of(context).subscriptions, number);
      };
    graph.unadvertise = [](void * context, uint64_t number) {
        of(context).remove(of(context).publishers, number);
      };
    graph.num_publishers = [](void * context, uint64_t) {of(context); return size_t{1};};
    graph.num_subscribers = [](void * context, uint64_t) {of(context); return size_t{1};};
    graph.publish = [](void * context, uint64_t number, const uint8_t * message, size_t num) {
        auto & graph = of(context);
        const std::lock_guard<std::mutex> lock(graph.mutex);
        graph.published[graph.publishers[number]].emplace_back(message, message + num);
        graph.changed.notify_all();
        return det_post_status{DET_POST_OK};
      };
    graph.serve_switch = [](void * context, uint64_t number, const char * name) {
        return of(context).add(of(context).switches, number, name, "std_srvs/srv/SetBool");
      };
    return graph;
  }

  static Graph & of(void * context)
  {
    auto & graph = *static_cast<Graph *>(context);
    graph.num_late += graph.is_closed;
    return graph;
  }

  det_post_status add(
    std::map<uint64_t, std::string> & to, uint64_t number, const char * topic, const char * type)
  {
    const std::lock_guard<std::mutex> lock(mutex);
    const bool is_unknown = std::string(type).find(unknown_package + "/") == 0;
    if (refuses || is_unknown) {return DET_POST_ERROR_MIDDLEWARE;}
    to[number] = topic;
    types.insert(std::string(topic) + " " + type);
    return DET_POST_OK;
  }

  void remove(std::map<uint64_t, std::string> & from, uint64_t number)
  {
    const std::lock_guard<std::mutex> lock(mutex);
    from.erase(number);
  }

  /// The number of the subscription to a topic, or 0.
  uint64_t subscription(const std::string & topic) {return number_of(subscriptions, topic);}

  uint64_t number_of(const std::map<uint64_t, std::string> & endpoints, const std::string & name)
  {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto & [number, of] : endpoints) {
      if (of == name) {return number;}
    }
    return 0;
  }

  /// Closes the node of this graph.
  void close(det_post_node node)
  {
    expect(det_post_node_close(node) == DET_POST_OK, "close");
    is_closed = true;
    const std::lock_guard<std::mutex> lock(mutex);
    expect(subscriptions.empty(), "no subscription is left");
    expect(publishers.empty(), "no publisher is left");
  }

  size_t num_published(const std::string & topic)
  {
    const std::lock_guard<std::mutex> lock(mutex);
    return published[topic].size();
  }

  /// Message number `index` of a topic, for which it waits.
  Bytes wait_for(const std::string & topic, size_t index)
  {
    std::unique_lock<std::mutex> lock(mutex);
    const auto is_there = [&] {return published[topic].size() > index;};
    expect(changed.wait_for(lock, std::chrono::seconds(60), is_there), topic.c_str());
    return is_there() ? published[topic][index] : Bytes();
  }
};

/// The length of the sequence after the header of a message.
uint32_t num_detections(const Bytes & message)
{
  uint32_t length = 0, num = 0;
  if (message.size() < 16) {return 0;}
  std::memcpy(&length, &message[12], 4);
  // The body begins after 4 bytes, and the sequence at a multiple of 4 bytes of it.
  const size_t at = 4 + (12 + length + 3) / 4 * 4;
  if (message.size() >= at + 4) {std::memcpy(&num, &message[at], 4);}
  return num;
}

/// The value of a key in a message of diagnostics, or `none`.
std::string value_of(const Bytes & message, const std::string & key)
{
  const std::string bytes(message.begin(), message.end());
  const auto found = bytes.find(key);
  if (found == std::string::npos) {return "none";}
  // Behind the 0 of the key, at a multiple of 4 bytes: the length of the value.
  const auto at = (found + key.size() + 1 + 3) / 4 * 4;
  return at + 4 < bytes.size() ? bytes.c_str() + at + 4 : "none";
}

det_post::Configuration configured(const char * file)
{
  det_post::Configuration configuration;
  configuration.files = {file};
  configuration.overrides = {
    "device:=cpu", "camera.score_threshold:=0.0", "camera.output:=/boxes"};
  return configuration;
}

/// An image and its input.
struct TestImage
{
  TestImage() : pixels(3 * 320 * 192)
  {
    for (size_t i = 0; i < pixels.size(); ++i) {pixels[i] = static_cast<uint8_t>(i * i / 977);}
    image = {320, 192, 960, "rgb8", 0, {pixels.data(), pixels.size()}};
    input = det_post::input(image, 1'000'000'000, "camera");
  }
  Bytes pixels;
  det_post_image image{};
  det_post_input input{};
};

void detects_as_the_detector_does(const char * file)
{
  const TestImage sample;
  auto configuration = configured(file);
  Graph graph;
  det_post::Node node(configuration, graph.functions());
  expect(graph.types.count("/diagnostics diagnostic_msgs/msg/DiagnosticArray") == 1, "diagnostics");
  expect(graph.subscriptions.empty(), "nothing is subscribed before the node is active");
  expect(node.change(1) == DET_POST_OK, "configure");
  expect(node.change(3) == DET_POST_OK, "activate");
  const auto camera = graph.subscription("/camera_0/image");
  expect(camera != 0, "the images are subscribed");
  expect(node.deliver(camera, sample.input) == DET_POST_OK, "deliver");
  const auto message = graph.wait_for("/boxes", 0);

  configuration.channel = "camera";
  det_post::Detector detector(configuration);
  const auto num = detector.detect(sample.input).size();
  expect(num > 0 && num_detections(message) == num, "as many detections as the detector finds");

  // A threshold that nothing reaches, from the next frame on.
  expect(node.set_parameters({"camera.score_threshold:=1.0"}) == DET_POST_OK, "a live parameter");
  auto later = sample.input;
  later.stamp_ns += 100'000'000;
  expect(node.deliver(camera, later) == DET_POST_OK, "a second image");
  expect(num_detections(graph.wait_for("/boxes", 1)) == 0, "the new threshold");

  expect(node.change(4) == DET_POST_OK, "deactivate");
  expect(graph.subscription("/camera_0/image") == 0, "nothing is subscribed any more");
  expect(node.deliver(camera, sample.input) == DET_POST_OK, "a late message is dropped");
  node.close();
  expect(graph.publishers.empty(), "no publisher is left");
}

void parameters(const char * file)
{
  Graph graph;
  det_post::Node node(configured(file), graph.functions());
  std::map<std::string, det_post::Parameter> by_name;
  for (const auto & parameter : node.parameters()) {by_name[parameter.name] = parameter;}
  const auto & threshold = by_name["camera.score_threshold"];
  expect(threshold.value_type == 3 && threshold.number == 0.0, "a number");
  expect(threshold.is_read_only == 0 && std::strlen(threshold.description) > 0, "it is live");
  expect(std::strstr(threshold.allowed, "1") != nullptr, "its range");
  const auto & device = by_name["device"];
  expect(device.value_type == 4 && std::string(device.text) == "cpu", "a text");
  expect(device.is_read_only == 1, "it is fixed");
  expect(by_name["camera.class_filter"].value_type == 9, "an empty list of texts");
  expect(node.set_parameters({"camera.class_filter:=[car]"}) == DET_POST_OK, "a list");
  for (const auto & parameter : node.parameters()) {
    if (std::string(parameter.name) != "camera.class_filter") {continue;}
    expect(parameter.num_values == 1 && std::string(parameter.texts[0]) == "car", "its text");
  }
  const auto id = node.get().id;
  const auto set = [&](const char * assignment) {return node.set_parameters({assignment});};
  expect_error(
    set("camera.score_threshold:=2.0"), DET_POST_ERROR_CONFIG, id, "from 0 to 1", "out of range");
  expect_error(set("device:=cuda:7"), DET_POST_ERROR_CONFIG, id, "read-only", "a fixed parameter");
  expect_error(
    set("camera.score_treshold:=0.5"), DET_POST_ERROR_CONFIG, id, "did you mean", "a wrong name");
}

void switches(const char * file)
{
  Graph graph;
  auto configuration = configured(file);
  configuration.overrides.push_back("camera.enable_service:=enable");
  det_post::Node node;
  auto functions = graph.functions();
  functions.serve_switch = nullptr;
  expect_error(
    node.open(configuration, functions, std::nothrow), DET_POST_ERROR_MIDDLEWARE, 0,
    "graph.serve_switch is null", "a graph without services");
  expect(
    node.open(configuration, graph.functions(), std::nothrow) == DET_POST_OK, "with services");
  const auto is_enabled = [&] {
      uint32_t flag = 2;
      for (const auto & parameter : node.parameters()) {
        if (std::string(parameter.name) == "camera.enabled") {flag = parameter.flag;}
      }
      return flag;
    };
  const auto enable = graph.number_of(graph.switches, "enable");
  expect(enable != 0 && is_enabled() == 1, "the service is there, and the channel is on");
  expect(node.set_switch(enable, false) == DET_POST_OK && is_enabled() == 0, "off");
  expect(node.set_switch(enable, true) == DET_POST_OK && is_enabled() == 1, "on");
  const auto id = node.get().id;
  expect_error(
    node.set_switch(enable + 1000, true), DET_POST_ERROR_ARGUMENT, id, "no switch", "no switch");
  expect_error(
    det_post_node_set_switch(node.get(), enable, 7), DET_POST_ERROR_ARGUMENT, id, "is_on is 7",
    "neither on nor off");
  node.close();
  expect_error(node.set_switch(enable, true), DET_POST_ERROR_HANDLE, 0, "no open node", "closed");
}

/// A cloud and its input.
struct Points
{
  Points() : values(4 * 2000)
  {
    for (size_t i = 0; i < values.size(); i += 4) {
      values[i] = 5.0F + 0.01F * static_cast<float>(i / 4);
      values[i + 1] = 1.0F;
      values[i + 2] = -1.0F;
    }
    const auto * data = reinterpret_cast<const uint8_t *>(values.data());
    cloud = {2000, 1, 16, 32000, 0, fields, 4, {data, 32000}};
    input = det_post::input(cloud, 1'000'000'000, "lidar");
  }
  std::vector<float> values;
  det_post_point_field fields[4] = {
    {"x", 0, 7, 1}, {"y", 4, 7, 1}, {"z", 8, 7, 1}, {"intensity", 12, 7, 1}};
  det_post_cloud cloud{};
  det_post_input input{};
};

/// A frame that waits for a transform longer than the node, which is closed.
void closes_during_a_frame(const char * file)
{
  auto configuration = configured(file);
  configuration.overrides.push_back("lidar.densification.transform_wait_s:=5.0");
  Graph graph;
  det_post::Node node(configuration, graph.functions());
  expect(node.change(1) == DET_POST_OK && node.change(3) == DET_POST_OK, "activate");
  const auto lidar = graph.subscription("/lidar_0/points");
  const Points points;
  const auto begin = std::chrono::steady_clock::now();
  expect(node.deliver(lidar, points.input) == DET_POST_OK, "a cloud");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  graph.close(node.get());
  const auto duration = std::chrono::steady_clock::now() - begin;
  expect(duration < std::chrono::milliseconds(4800), "close does not wait for the frame");
  std::this_thread::sleep_until(begin + std::chrono::milliseconds(6500));
  expect(graph.num_late == 0, "no function is called when the frame ends");
}

/// Threads that deliver to a node, and one that closes it.
void closes_during_calls(const char * file)
{
  Graph graph;
  det_post::Node node(configured(file), graph.functions());
  expect(node.change(1) == DET_POST_OK && node.change(3) == DET_POST_OK, "activate");
  const auto camera = graph.subscription("/camera_0/image");
  const auto deliver = [id = node.get(), camera] {
      TestImage sample;
      auto status = det_post_status{DET_POST_OK};
      while (status == DET_POST_OK) {
        sample.input.stamp_ns += 1'000'000;
        status = det_post_node_deliver(id, camera, &sample.input);
      }
      expect_error(status, DET_POST_ERROR_HANDLE, 0, "no open node", "a closed node");
    };
  std::thread first(deliver);
  std::thread second(deliver);
  graph.wait_for("/boxes", 2);
  graph.close(node.get());
  first.join();
  second.join();
  expect(graph.num_late == 0, "no function is called for a closed node");
}

/// Errors of calls in several threads.
void messages_stay_with_their_thread(const char * file)
{
  Graph graph;
  det_post::Node node(configured(file), graph.functions());
  expect_error(node.change(99), DET_POST_ERROR_ARGUMENT, 0, "transition 99", "no transition");
  std::atomic<bool> ends{false};
  std::thread other([&] {
      const std::vector<std::string> unknown = {"camera." + std::string(200, 'x') + ":=1"};
      while (!ends) {
        node.set_parameters(unknown);
        node.set_parameters({"device:=cuda:7"});
        expect(det_post::error_message().find("read-only") != std::string::npos, "its own");
      }
    });
  for (size_t i = 0; i < 200; ++i) {
    const auto message = node.error_message();
    expect(message.find('\0') == std::string::npos, "a text that ends where it ends");
  }
  ends = true;
  other.join();
  expect(message_of(0).find("transition 99") != std::string::npos, "the message of this thread");
}

/// Times for debugging of a package that a graph does not know are left out, with a warning;
/// detections of one are refused.
template<typename Has>
void leaves_out_times(const char * file, det_post::Log & log, Has has)
{
  auto configuration = configured(file);
  configuration.overrides.push_back("camera.publish.debug_times:=times");
  Graph graph;
  graph.unknown_package = "autoware_internal_debug_msgs";
  expect(log.start(DET_POST_LOG_WARN) == DET_POST_OK, "warnings");
  det_post::Node node(configuration, graph.functions());
  expect(node.change(1) == DET_POST_OK && node.change(3) == DET_POST_OK, "active without times");
  expect(has("30 det_post::node::debug_times: times for debugging are not published"), "a warning of no times");
  expect(graph.number_of(graph.publishers, "/boxes") != 0, "detections are there");
  node.close();
  graph.unknown_package = "vision_msgs";
  node = det_post::Node(configuration, graph.functions());
  expect_error(
    node.change(1), DET_POST_ERROR_MIDDLEWARE, node.get().id, "refuses to advertise",
    "no detections");
}

void log(const char * file)
{
  std::mutex mutex;
  std::vector<std::string> entries;
  det_post_status nested = DET_POST_OK;
  const auto has = [&](const char * text) {
      const std::lock_guard<std::mutex> lock(mutex);
      for (const auto & entry : entries) {
        if (entry.find(text) != std::string::npos) {return true;}
      }
      return false;
    };
  // Whether there were entries since the last call.
  const auto take = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return !std::exchange(entries, {}).empty();
    };
  {
    det_post::Log log([&](uint32_t level, const char * target, const char * message) {
        const std::lock_guard<std::mutex> lock(mutex);
        entries.push_back(std::to_string(level) + " " + target + ": " + message);
        nested = det_post_set_log(nullptr, nullptr, 0);
      });
    expect(log.start() == DET_POST_OK, "a log");
    Graph graph;
    auto configuration = configured(file);
    configuration.overrides.push_back("qos_overrides./nowhere.publisher.depth:=3");
    det_post::Node node(configuration, graph.functions());
    expect(has("30 det_post::node::endpoints: qos_overrides./nowhere"), "a warning");
    expect(nested == DET_POST_ERROR_ARGUMENT, "a log that sets the log");
    expect(node.change(1) == DET_POST_OK && has("20 det_post::"), "progress");
    expect(node.change(2) == DET_POST_OK, "cleanup");
    expect(log.start(DET_POST_LOG_ERROR) == DET_POST_OK, "another level");
    take();
    expect(node.change(1) == DET_POST_OK && !take(), "only errors");
    leaves_out_times(file, log, has);
    expect_error(log.start(7), DET_POST_ERROR_ARGUMENT, 0, "10, 20, 30, 40", "no level");
    expect(log.start(DET_POST_LOG_DEBUG) == DET_POST_OK, "details");
  }
  take();
  Graph graph;
  det_post::Node node(configured(file), graph.functions());
  expect(node.change(1) == DET_POST_OK && !take(), "no entry after its end");
}

void misuse(const char * file)
{
  Graph graph;
  const auto configuration = configured(file);
  auto functions = graph.functions();
  functions.publish = nullptr;
  det_post::Node node;
  expect_error(
    node.open(configuration, functions, std::nothrow), DET_POST_ERROR_NULL, 0, "graph.publish",
    "a function is missing");
  functions = graph.functions();
  functions.reserved[0] = 1;
  expect_error(
    node.open(configuration, functions, std::nothrow), DET_POST_ERROR_ARGUMENT, 0, "reserved",
    "a field of a later version");
  graph.refuses = true;
  expect_error(
    node.open(configuration, graph.functions(), std::nothrow), DET_POST_ERROR_MIDDLEWARE, 0,
    "refuses to advertise", "a graph that refuses");
  graph.refuses = false;
  auto wrong = configuration;
  wrong.overrides.push_back("camera.inptu:=/x");
  expect_error(
    node.open(wrong, graph.functions(), std::nothrow), DET_POST_ERROR_CONFIG, 0,
    "did you mean `camera.input`", "a wrong key");
  expect_error(node.change(1), DET_POST_ERROR_HANDLE, 0, "no open node", "no node");

  expect(node.open(configuration, graph.functions(), std::nothrow) == DET_POST_OK, "open");
  const auto id = node.get().id;
  expect_error(node.change(3), DET_POST_ERROR_ARGUMENT, id, "", "active before it is configured");
  expect_error(node.change(99), DET_POST_ERROR_ARGUMENT, id, "99", "no transition");
  expect(node.change(1) == DET_POST_OK && node.change(3) == DET_POST_OK, "activate");
  const TestImage sample;
  const auto camera = graph.subscription("/camera_0/image");
  const auto lidar = graph.subscription("/lidar_0/points");
  expect_error(
    node.deliver(lidar, sample.input), DET_POST_ERROR_ARGUMENT, id, "PointCloud2",
    "an image for clouds");
  expect_error(
    det_post_node_deliver(node.get(), camera, nullptr), DET_POST_ERROR_NULL, id, "message",
    "no message");
  // What contradicts itself is counted, as a message from the network is.
  auto image = sample.image;
  image.bytes.num_bytes -= 1000;
  expect(
    node.deliver(camera, det_post::input(image, 1, "camera")) == DET_POST_OK, "a short image");
  const uint8_t garbage[8] = {0, 1, 0, 0, 255, 255, 255, 255};
  expect(node.deliver(camera, garbage, sizeof(garbage)) == DET_POST_OK, "a truncated message");
}

/// Texts that are not UTF-8 are counted, as in messages from the network.
void counts_texts_that_are_not_utf8(const char * file)
{
  Graph graph;
  det_post::Node node(configured(file), graph.functions());
  expect(node.change(1) == DET_POST_OK && node.change(3) == DET_POST_OK, "activate");
  const auto camera = graph.subscription("/camera_0/image");
  const TestImage sample;
  auto input = sample.input;
  input.frame_id = "camera\xff";
  expect(node.deliver(camera, input) == DET_POST_OK, "a frame that is not UTF-8");
  auto image = sample.image;
  image.encoding = "rgb8\xff";
  input = det_post::input(image, 2'000'000'000, "camera");
  expect(node.deliver(camera, input) == DET_POST_OK, "an encoding that is not UTF-8");
  // The next message may have been begun before.
  const auto index = graph.num_published("/diagnostics") + 1;
  const auto message = graph.wait_for("/diagnostics", index);
  expect(value_of(message, "refused.malformed_message") == "2", "they are counted");
}

}  // namespace

int main(int, char ** arguments)
{
  detects_as_the_detector_does(arguments[1]);
  parameters(arguments[1]);
  switches(arguments[1]);
  log(arguments[1]);
  closes_during_a_frame(arguments[1]);
  closes_during_calls(arguments[1]);
  messages_stay_with_their_thread(arguments[1]);
  counts_texts_that_are_not_utf8(arguments[1]);
  misuse(arguments[1]);
  if (num_failures == 0) {std::puts("no failures");}
  return num_failures == 0 ? 0 : 1;
}
