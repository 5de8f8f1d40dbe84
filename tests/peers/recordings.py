"""Messages of a recording, as other implementations read them: topic, type, log time in
nanoseconds, message. Types are taken from the recording itself."""

from mcap_ros2.reader import read_ros2_messages
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

SEPARATOR = "=" * 80 + "\n"


def register(store, type_name, text):
    first, *rest = text.split(SEPARATOR)
    types = get_types_from_msg(first, type_name)
    for part in rest:
        name, part = part.split("\n", 1)
        types.update(get_types_from_msg(part, name.removeprefix("MSG: ").replace("/", "/msg/")))
    store.register({name: fields for name, fields in types.items() if name not in store.types})


def read_with_rosbags(folder):
    store = get_typestore(Stores.ROS2_HUMBLE)
    with Reader(folder) as reader:
        for connection in reader.connections:
            register(store, connection.msgtype, connection.msgdef.data)
        assert reader.message_count == sum(c.msgcount for c in reader.connections)
        for connection, log_time, data in reader.messages():
            message = store.deserialize_cdr(data, connection.msgtype)
            yield connection.topic, connection.msgtype, log_time, message


def read_with_mcap(folder):
    (path,) = folder.glob("*.mcap")
    for item in read_ros2_messages(str(path)):
        yield item.channel.topic, item.schema.name, item.log_time_ns, item.ros_msg
