// A peer in the ROS 2 graph by another DDS implementation, Fast DDS, driven by a test.
//
// Takes one command a line from standard input, words separated by spaces, and answers one line each:
// `ok` and words, or `error` and a reason. Ends with its input, so that it never outlives the test.
// All traffic stays on 127.0.0.1. Messages are whole CDR messages in hexadecimal digits, of any type:
// endpoints and services are set up as rmw_fastrtps does it, without types of ROS.
//
//   c++ -std=c++17 fast_dds_peer.cpp -lfastrtps -lfastcdr
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/Topic.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <fastdds/rtps/transport/shared_mem/SharedMemTransportDescriptor.h>
#include <fastrtps/utils/IPLocator.h>

namespace fast = eprosima::fastdds::dds;
namespace rtps = eprosima::fastrtps::rtps;
using Bytes = std::vector<uint8_t>;
using ReturnCode_t = eprosima::fastrtps::types::ReturnCode_t;
using Clock = std::chrono::steady_clock;

namespace {

// Messages of any type, as bytes with their encapsulation header.
class RawType : public fast::TopicDataType {
 public:
  explicit RawType(const std::string& name) {
    setName(name.c_str());
    m_typeSize = 1024;  // of the first allocation
    m_isGetKeyDefined = false;
    auto_fill_type_object(false);
    auto_fill_type_information(false);
  }

  bool serialize(void* data, rtps::SerializedPayload_t* payload) override {
    const Bytes& bytes = *static_cast<Bytes*>(data);
    std::memcpy(payload->data, bytes.data(), bytes.size());
    payload->length = static_cast<uint32_t>(bytes.size());
    payload->encapsulation = CDR_LE;
    return true;
  }

  bool deserialize(rtps::SerializedPayload_t* payload, void* data) override {
    static_cast<Bytes*>(data)->assign(payload->data, payload->data + payload->length);
    return true;
  }

  std::function<uint32_t()> getSerializedSizeProvider(void* data) override {
    return [data] { return static_cast<uint32_t>(static_cast<Bytes*>(data)->size()); };
  }

  void* createData() override { return new Bytes; }
  void deleteData(void* data) override { delete static_cast<Bytes*>(data); }
  bool getKey(void*, rtps::InstanceHandle_t*, bool) override { return false; }
};

// Words and options (`key=value`) of a command.
struct Command {
  std::vector<std::string> words;
  std::map<std::string, std::string> options;

  explicit Command(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) {
      const size_t at = word.find('=');
      if (at == std::string::npos) {
        words.push_back(word);
      } else {
        options[word.substr(0, at)] = word.substr(at + 1);
      }
    }
  }

  const std::string& word(size_t i) const { return words.at(i); }
  double number(size_t i) const { return std::stod(words.at(i)); }
  bool has(const std::string& key) const { return options.count(key) != 0; }

  std::string option(const std::string& key, const std::string& otherwise) const {
    const auto found = options.find(key);
    return found == options.end() ? otherwise : found->second;
  }
};

Bytes from_hex(const std::string& text) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string to_hex(const Bytes& bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += {digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

// FNV-1a of 64 bits.
uint64_t digest(const Bytes& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t byte : bytes) {
    hash = (hash ^ byte) * 0x100000001b3;
  }
  return hash;
}

void put(Bytes& bytes, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; i++) {
    bytes[at + i] = static_cast<uint8_t>(value >> 8 * i);
  }
}

// Of writers and readers alike: as ROS names them; XCDR1, no data sharing, as rmw_fastrtps.
template <typename Qos>
Qos quality(Qos qos, const Command& command) {
  qos.reliability().kind =
      command.has("reliable") ? fast::RELIABLE_RELIABILITY_QOS : fast::BEST_EFFORT_RELIABILITY_QOS;
  qos.reliability().max_blocking_time = {10, 0};
  qos.durability().kind =
      command.has("latched") ? fast::TRANSIENT_LOCAL_DURABILITY_QOS : fast::VOLATILE_DURABILITY_QOS;
  const int depth = std::stoi(command.option("depth", "10"));
  qos.history().kind = command.has("keep_all") ? fast::KEEP_ALL_HISTORY_QOS : fast::KEEP_LAST_HISTORY_QOS;
  qos.history().depth = depth;
  qos.resource_limits().max_samples = command.has("keep_all") ? depth : std::max(depth, 5000);
  qos.resource_limits().max_samples_per_instance = qos.resource_limits().max_samples;
  qos.resource_limits().allocated_samples = 1;
  qos.endpoint().history_memory_policy = rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
  qos.data_sharing().off();
  if (command.has("exclusive")) {
    qos.ownership().kind = fast::EXCLUSIVE_OWNERSHIP_QOS;
  }
  return qos;
}

// Answers every request of a service with the same response.
class Server : public fast::DataReaderListener {
 public:
  fast::DataWriter* responses = nullptr;
  Bytes response;
  std::atomic<int> num_requests{0};

  void on_data_available(fast::DataReader* reader) override {
    Bytes request;
    fast::SampleInfo info;
    while (reader->take_next_sample(&request, &info) == ReturnCode_t::RETCODE_OK) {
      if (!info.valid_data) {
        continue;
      }
      num_requests++;
      rtps::WriteParams params;
      params.related_sample_identity() = info.sample_identity;
      // The reader of the client's responses, where the client names it.
      const rtps::GUID_t& named = info.related_sample_identity.writer_guid();
      if (named != rtps::GUID_t::unknown()) {
        params.related_sample_identity().writer_guid() = named;
      }
      responses->write(&response, params);
    }
  }
};

struct Client {
  fast::DataWriter* requests;
  fast::DataReader* responses;
};

class Peer {
 public:
  explicit Peer(uint32_t domain) {
    fast::DomainParticipantQos qos;
    qos.transport().use_builtin_transports = false;
    auto udp = std::make_shared<eprosima::fastdds::rtps::UDPv4TransportDescriptor>();
    udp->interfaceWhiteList.push_back("127.0.0.1");
    udp->receiveBufferSize = 32 << 20;
    udp->sendBufferSize = 4 << 20;
    qos.transport().user_transports.push_back(udp);
    // As in ROS: its locators are in the announcements, and only other processes of Fast DDS use them.
    qos.transport().user_transports.push_back(
        std::make_shared<eprosima::fastdds::rtps::SharedMemTransportDescriptor>());
    rtps::Locator_t peer;
    rtps::IPLocator::setIPv4(peer, "127.0.0.1");
    udp->maxInitialPeersRange = 20;
    qos.wire_protocol().builtin.initialPeersList.push_back(peer);
    participant_ = fast::DomainParticipantFactory::get_instance()->create_participant(domain, qos);
    if (participant_ == nullptr) {
      throw std::runtime_error("no participant");
    }
    publisher_ = participant_->create_publisher(fast::PUBLISHER_QOS_DEFAULT);
    subscriber_ = participant_->create_subscriber(fast::SUBSCRIBER_QOS_DEFAULT);
  }

  // Leaves the graph.
  ~Peer() {
    participant_->delete_contained_entities();
    fast::DomainParticipantFactory::get_instance()->delete_participant(participant_);
  }

  std::string answer(const Command& command) {
    const std::string& op = command.word(0);
    if (op == "writer") return make_writer(command);
    if (op == "reader") return make_reader(command);
    if (op == "close") return close(command);
    if (op == "matched") return matched(command);
    if (op == "write") return write(command);
    if (op == "take") return take(command, to_hex);
    if (op == "receive") return take(command, [](const Bytes& bytes) {
      return std::to_string(bytes.size()) + ":" + std::to_string(digest(bytes));
    });
    if (op == "stream") return stream(command);
    if (op == "call") return call(command);
    if (op == "serve") return serve(command);
    if (op == "served") return std::to_string(servers_.at(command.word(1)).num_requests);
    throw std::runtime_error("unknown command " + op);
  }

 private:
  fast::Topic* topic(const std::string& name, const std::string& type) {
    if (participant_->find_type(type).empty()) {
      fast::TypeSupport(new RawType(type)).register_type(participant_);
    }
    auto* known = dynamic_cast<fast::Topic*>(participant_->lookup_topicdescription(name));
    auto* found = known ? known : participant_->create_topic(name, type, fast::TOPIC_QOS_DEFAULT);
    if (found == nullptr) {
      throw std::runtime_error("no topic " + name);
    }
    return found;
  }

  fast::DataWriter* new_writer(fast::Topic* topic, const Command& command) {
    fast::PublisherQos of_publisher;
    if (command.has("partition")) {
      of_publisher.partition().push_back(command.option("partition", "").c_str());
    }
    auto* publisher =
        command.has("partition") ? participant_->create_publisher(of_publisher) : publisher_;
    auto qos = quality(publisher->get_default_datawriter_qos(), command);
    qos.publish_mode().kind = fast::ASYNCHRONOUS_PUBLISH_MODE;
    auto* writer = publisher->create_datawriter(topic, qos);
    if (writer == nullptr) {
      throw std::runtime_error("no writer");
    }
    return writer;
  }

  fast::DataReader* new_reader(fast::Topic* topic, const Command& command,
                              fast::DataReaderListener* listener = nullptr) {
    auto qos = quality(subscriber_->get_default_datareader_qos(), command);
    auto* reader = subscriber_->create_datareader(topic, qos, listener);
    if (reader == nullptr) {
      throw std::runtime_error("no reader");
    }
    return reader;
  }

  // writer ID TOPIC TYPE [reliable=] [latched=] [keep_all=] [depth=N] [exclusive=] [partition=NAME]
  std::string make_writer(const Command& command) {
    writers_[command.word(1)] = new_writer(topic(command.word(2), command.word(3)), command);
    return "";
  }

  // reader ID TOPIC TYPE, options as those of a writer
  std::string make_reader(const Command& command) {
    readers_[command.word(1)] = new_reader(topic(command.word(2), command.word(3)), command);
    return "";
  }

  std::string close(const Command& command) {
    const auto writer = writers_.find(command.word(1));
    if (writer != writers_.end()) {
      publisher_->delete_datawriter(writer->second);
      writers_.erase(writer);
    }
    const auto reader = readers_.find(command.word(1));
    if (reader != readers_.end()) {
      subscriber_->delete_datareader(reader->second);
      readers_.erase(reader);
    }
    return "";
  }

  int num_matched(const std::string& id) {
    const auto writer = writers_.find(id);
    if (writer != writers_.end()) {
      fast::PublicationMatchedStatus status;
      writer->second->get_publication_matched_status(status);
      return status.current_count;
    }
    fast::SubscriptionMatchedStatus status;
    readers_.at(id)->get_subscription_matched_status(status);
    return status.current_count;
  }

  // matched ID COUNT SECONDS: waits until an endpoint has so many peers
  std::string matched(const Command& command) {
    await(command.number(3), [&] { return num_matched(command.word(1)) == int(command.number(2)); });
    return std::to_string(num_matched(command.word(1)));
  }

  template <typename Condition>
  static bool await(double seconds, Condition is_so) {
    const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
    while (!is_so()) {
      if (Clock::now() > deadline) {
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  // write ID MESSAGE
  std::string write(const Command& command) {
    Bytes message = from_hex(command.word(2));
    if (!writers_.at(command.word(1))->write(&message)) {
      throw std::runtime_error("not written");
    }
    return "";
  }

  // take ID COUNT SECONDS: messages, as `show` gives them, until there are so many or the time is over
  template <typename Show>
  std::string take(const Command& command, Show show) {
    auto* reader = readers_.at(command.word(1));
    std::string answer;
    int count = 0;
    await(command.number(3), [&] {
      Bytes message;
      fast::SampleInfo info;
      while (reader->take_next_sample(&message, &info) == ReturnCode_t::RETCODE_OK) {
        if (info.valid_data) {
          answer += (count++ == 0 ? "" : " ") + show(message);
        }
      }
      return count >= int(command.number(2));
    });
    return answer;
  }

  // stream ID COUNT HZ SIZE START: messages that are START, which begins with a stamp, and a sequence
  // of SIZE bytes, whose first and last eight are the number of the message
  std::string stream(const Command& command) {
    auto* writer = writers_.at(command.word(1));
    const int count = int(command.number(2));
    const auto size = size_t(command.number(4));
    Bytes message = from_hex(command.word(5));
    const size_t start = message.size() + 4;
    message.resize((start + size + 3) & ~size_t(3));
    put(message, start - 4, size, 4);
    for (size_t i = 0; i < size; i++) {
      message[start + i] = uint8_t(i % 251);
    }
    const auto began = Clock::now();
    for (int number = 0; number < count; number++) {
      std::this_thread::sleep_until(began + std::chrono::duration_cast<Clock::duration>(
                                                std::chrono::duration<double>(number / command.number(3))));
      const uint64_t now = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
      put(message, 4, now / 1000000000, 4);
      put(message, 8, now % 1000000000, 4);
      put(message, start, number, 8);
      put(message, start + size - 8, number, 8);
      if (!writer->write(&message)) {
        throw std::runtime_error("message " + std::to_string(number) + " not written");
      }
    }
    return "";
  }

  // call SERVICE TYPE REQUEST SECONDS: the response, or nothing; the client stays for later calls
  std::string call(const Command& command) {
    const std::string& service = command.word(1);
    const Command qos("- reliable=");
    if (clients_.count(service) == 0) {
      auto* responses = new_reader(topic("rr" + service + "Reply", command.word(2) + "_Response_"), qos);
      auto* requests = new_writer(topic("rq" + service + "Request", command.word(2) + "_Request_"), qos);
      clients_[service] = {requests, responses};
    }
    const Client& client = clients_[service];
    const double seconds = command.number(4);
    const bool is_ready = await(seconds, [&] {
      fast::PublicationMatchedStatus asked;
      client.requests->get_publication_matched_status(asked);
      fast::SubscriptionMatchedStatus answered;
      client.responses->get_subscription_matched_status(answered);
      return asked.current_count > 0 && answered.current_count > 0;
    });
    if (!is_ready) {
      return "";
    }
    Bytes request = from_hex(command.word(3));
    rtps::WriteParams params;
    params.related_sample_identity().writer_guid() = client.responses->guid();
    if (!client.requests->write(&request, params)) {
      throw std::runtime_error("request not written");
    }
    const auto number = params.sample_identity().sequence_number();
    std::string answer;
    await(seconds, [&] {
      Bytes response;
      fast::SampleInfo info;
      while (client.responses->take_next_sample(&response, &info) == ReturnCode_t::RETCODE_OK) {
        const auto& related = info.related_sample_identity;
        const bool is_ours = related.writer_guid() == client.responses->guid() ||
                             related.writer_guid() == client.requests->guid();
        if (info.valid_data && is_ours && related.sequence_number() == number) {
          answer = to_hex(response);
        }
      }
      return !answer.empty();
    });
    return answer;
  }

  // serve SERVICE TYPE RESPONSE
  std::string serve(const Command& command) {
    const std::string& service = command.word(1);
    const Command qos("- reliable=");
    Server& server = servers_[service];
    server.response = from_hex(command.word(3));
    server.responses = new_writer(topic("rr" + service + "Reply", command.word(2) + "_Response_"), qos);
    new_reader(topic("rq" + service + "Request", command.word(2) + "_Request_"), qos, &server);
    return "";
  }

  fast::DomainParticipant* participant_;
  fast::Publisher* publisher_;
  fast::Subscriber* subscriber_;
  std::map<std::string, fast::DataWriter*> writers_;
  std::map<std::string, fast::DataReader*> readers_;
  std::map<std::string, Client> clients_;
  std::map<std::string, Server> servers_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fast_dds_peer DOMAIN\n";
    return 2;
  }
  Peer peer(static_cast<uint32_t>(std::stoul(argv[1])));
  std::cout << "ok ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << "ok " << peer.answer(Command(line)) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error " << error.what() << std::endl;
    }
  }
}
