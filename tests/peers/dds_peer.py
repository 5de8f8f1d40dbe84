#!/usr/bin/env python3
"""A peer in the ROS 2 graph by another DDS implementation, CycloneDDS, driven by a test.

Takes one JSON command a line from standard input, answers one JSON line each. Ends with
its input, so that it never outlives the test. All traffic stays on 127.0.0.1:
CYCLONEDDS_URI is set by the test.

    pip install cyclonedds
"""

import json
import random
import resource
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cyclonedds._clayer import ddspy_take, ddspy_write
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription
from cyclonedds.core import InstanceState, Policy, Qos, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import make_idl_struct
from cyclonedds.idl.types import sequence, uint8
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from dds_types import BY_NAME, ParticipantEntitiesInfo, build, plain, service_type

# The length of a message's encapsulation header, which starts every raw payload.
ENCAPSULATION = 4

# The length of the start of a good message that is damaged.
MAX_DAMAGED = 4096

# A point of a cloud: x, y, z, intensity.
POINT = struct.Struct("<4f")

EVERYTHING = SampleState.Any | ViewState.Any | InstanceState.Any


def quality(command):
    """Quality of service as ROS names it; XCDR1, as ROS writes. With `patient`, a write waits
    for readers that have not confirmed the last eight."""
    reliable = command.get("reliable", False)
    latched = command.get("latched", False)
    patient = command.get("patient", False)
    return Qos(
        Policy.Reliability.Reliable(duration(seconds=10)) if reliable else Policy.Reliability.BestEffort,
        Policy.Durability.TransientLocal if latched else Policy.Durability.Volatile,
        Policy.History.KeepAll if patient else Policy.History.KeepLast(command.get("depth", 10)),
        Policy.ResourceLimits(max_samples=8 if patient else -1),
        Policy.DataRepresentation(use_cdrv0_representation=True, use_xcdrv2_representation=False),
    )


def padded(raw):
    return raw.ljust((len(raw) + 3) & ~3, b"\0")


def is_alive(sample):
    return sample.sample_info.instance_state == InstanceState.Alive


def plain_node(node):
    gids = {"readers": node.reader_gid_seq, "writers": node.writer_gid_seq}
    return {
        "name": node.node_name,
        "namespace": node.node_namespace,
        **{which: sorted(bytes(gid.data).hex() for gid in some) for which, some in gids.items()},
    }


def user_data(qos):
    """What an endpoint announces beside its policies."""
    return qos[Policy.Userdata].data.decode() if Policy.Userdata in qos else ""


class Peer:
    def __init__(self, domain):
        self.domain = domain
        self.participant = DomainParticipant(domain)
        self.strange = None
        self.publications = BuiltinDataReader(self.participant, BuiltinTopicDcpsPublication)
        self.subscriptions = BuiltinDataReader(self.participant, BuiltinTopicDcpsSubscription)
        self.endpoints = {}
        self.nodes = None
        self.calls = {}
        self.random = random.Random(1)

    def topic(self, name, kind):
        return Topic(self.participant, name, kind)

    def writer(self, command):
        kind = BY_NAME[command["type"]]
        topic = self.topic("rt" + command["topic"], kind)
        self.endpoints[command["id"]] = DataWriter(self.participant, topic, qos=quality(command))

    def reader(self, command):
        kind = BY_NAME[command["type"]]
        topic = self.topic("rt" + command["topic"], kind)
        self.endpoints[command["id"]] = DataReader(self.participant, topic, qos=quality(command))

    def close(self, command):
        del self.endpoints[command["id"]]

    def matched(self, command):
        """Waits until an endpoint has so many peers."""
        endpoint = self.endpoints[command["id"]]
        count = (
            endpoint.get_matched_subscriptions
            if isinstance(endpoint, DataWriter)
            else endpoint.get_matched_publications
        )
        deadline = time.monotonic() + command.get("timeout", 10)
        while len(count()) != command["count"] and time.monotonic() < deadline:
            time.sleep(0.005)
        return len(count())

    def write(self, command):
        writer = self.endpoints[command["id"]]
        writer.write(build(writer.topic.data_type, command["sample"]))

    def blob(self, command):
        """A writer whose type has the name of another, but is a sequence of bytes: what it
        writes is any message of that type whose first four bytes are the number of the others."""
        if self.strange is None:
            self.strange = DomainParticipant(self.domain)
        kind = make_idl_struct("Blob", command["type"], {"rest": sequence[uint8]})
        topic = Topic(self.strange, command["topic"], kind)
        self.endpoints[command["id"]] = DataWriter(self.strange, topic, qos=quality(command))

    def send(self, command):
        """Writes a message of a blob, as hexadecimal digits without its first four bytes."""
        self.write_blob(self.endpoints[command["id"]], bytes.fromhex(command["hex"]))

    def write_blob(self, writer, rest):
        raw = bytes([0, 1, 0, 0]) + len(rest).to_bytes(4, "little") + rest
        assert ddspy_write(writer._ref, raw) >= 0, "not written"

    def write_strange_encoding(self, writer):
        """Writes something that is not announced as CDR."""
        assert ddspy_write(writer._ref, bytes([0, 9, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4])) >= 0, "not written"

    def raw(self, command):
        """Writes a whole message, in hexadecimal digits."""
        raw = bytes.fromhex(command["hex"])
        assert ddspy_write(self.endpoints[command["id"]]._ref, padded(raw)) >= 0, "not written"

    def take(self, command):
        """Takes messages until there are so many, or the time is over; as JSON, or written
        again in hexadecimal digits."""
        show = (lambda s: padded(s.serialize(use_version_2=False)).hex()) if command.get("hex") else plain
        reader = self.endpoints[command["id"]]
        deadline = time.monotonic() + command.get("timeout", 10)
        samples = []
        while True:
            samples += [show(s) for s in reader.take(N=1000) if type(s).__name__ != "InvalidSample"]
            if len(samples) >= command["count"] or time.monotonic() > deadline:
                return samples
            time.sleep(0.005)

    def count(self, command):
        """Takes what is there, and tells how many messages it was."""
        return len(ddspy_take(self.endpoints[command["id"]]._ref, EVERYTHING, 10_000))

    def receive(self, command):
        """Takes `count` messages that start with a header as they come, or those that come before
        nothing has come for five seconds. Tells how long after its stamp each came, in seconds."""
        reader = self.endpoints[command["id"]]
        arrivals = WaitSet(self.participant)
        arrivals.attach(ReadCondition(reader, EVERYTHING))
        ages = []
        while len(ages) < command["count"] and arrivals.wait(duration(seconds=5)):
            for raw, info in ddspy_take(reader._ref, EVERYTHING, 10):
                now = time.time_ns()
                seconds, nanoseconds = struct.unpack_from("<iI", raw, ENCAPSULATION)
                if info.valid_data:
                    ages.append(1e-9 * (now - seconds * 10**9 - nanoseconds))
        return ages

    def stream(self, command):
        """Writes `count` frames at `hz`, by one writer or by each of `ids`, the time of writing in
        the stamp, the number of the frame in the first and last eight bytes of the data. Tells how
        late the last was."""
        writers = [self.endpoints[id] for id in command.get("ids") or [command["id"]]]
        size = command["size"]
        raw, start = self.with_data(writers[0].topic.data_type, command["sample"], size)
        began = time.monotonic()
        for number in range(command["count"]):
            due = began + number / command["hz"]
            time.sleep(max(0.0, due - time.monotonic()))
            now = time.time_ns()
            raw[4:12] = (now // 10**9).to_bytes(4, "little") + (now % 10**9).to_bytes(4, "little")
            raw[start : start + 8] = raw[start + size - 8 : start + size] = number.to_bytes(8, "little")
            for writer in writers:
                assert ddspy_write(writer._ref, bytes(raw)) >= 0, f"frame {number} not written"
        return time.monotonic() - due

    def with_data(self, kind, sample, size):
        """A message with `size` bytes of data, serialized with a little and then stretched."""
        marker = list(range(200, 208))
        raw = build(kind, {**sample, "data": marker}).serialize(use_version_2=False)
        at = raw.index(bytes([8, 0, 0, 0, *marker]))
        start = at + 4
        if sample.get("point_step") == POINT.size:
            data = b"".join(self.point() for _ in range(size // POINT.size))
        else:
            data = bytes(i % 251 for i in range(251)) * (size // 251 + 1)
        raw = raw[:at] + size.to_bytes(4, "little") + data[:size] + raw[start + 8 :]
        return bytearray(padded(raw)), start

    def point(self):
        """Somewhere on a flat ground, or up to two metres above it."""
        height = self.random.choice((0.0, 0.0, self.random.uniform(0.0, 2.0)))
        x, y = self.random.uniform(-60.0, 60.0), self.random.uniform(-60.0, 60.0)
        return POINT.pack(x, y, height - 1.8, self.random.uniform(0.0, 255.0))

    def fuzz(self, command):
        """Writes `count` messages by a blob that are a good one damaged so that no decoder may
        take it, and the good one after every `every` of them. Tells the number of good ones. The
        good one is a `sample` of a `kind`, or given in hexadecimal digits."""
        writer = self.endpoints[command["id"]]
        if "hex" in command:
            good = bytes.fromhex(command["hex"])
        else:
            good = build(BY_NAME[command["kind"]], command["sample"]).serialize(use_version_2=False)
        good = good[ENCAPSULATION + 4 :]
        num_good = 0
        for number in range(command["count"]):
            rest = self.damaged(good[:MAX_DAMAGED])
            if rest is None:
                self.write_strange_encoding(writer)
            else:
                self.write_blob(writer, rest)
            if number % command["every"] == command["every"] - 1:
                self.write_blob(writer, good)
                num_good += 1
            if number % 20 == 19:
                time.sleep(command["pause"])
        return num_good

    def damaged(self, good):
        """Cut short, or with a frame's name that reaches past the end, or noise without an end
        of a text; none for a message that is not announced as CDR."""
        way = self.random.randrange(4)
        if way == 0:
            return good[: self.random.randrange(0, len(good) - 8)]
        if way == 1:
            return good[:4] + self.random.randrange(1 << 16, 1 << 32).to_bytes(4, "little") + good[8:]
        if way == 2:
            return bytes(self.random.randrange(1, 256) for _ in range(self.random.randrange(0, 40)))
        return None

    def call(self, command):
        """Calls a service as CycloneDDS's ROS does; null when there is no answer. In haste it has
        no reader of the answer when it asks, and makes one afterwards."""
        name, kind = command["service"], command["type"]
        qos = quality({"reliable": True})

        def listen():
            topic = self.topic(f"rr{name}Reply", service_type(kind, "Response"))
            return DataReader(self.participant, topic, qos=qos)

        if name not in self.calls:
            topic = self.topic(f"rq{name}Request", service_type(kind, "Request"))
            writer = DataWriter(self.participant, topic, qos=qos)
            self.calls[name] = (writer, None if command.get("hasty") else listen())
        writer, reader = self.calls[name]
        deadline = time.monotonic() + command.get("timeout", 10)
        while not (writer.get_matched_subscriptions() and (not reader or reader.get_matched_publications())):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)
        client, number = self.random.getrandbits(64), self.random.getrandbits(62)
        writer.write(build(writer.topic.data_type, {**command["request"], "client": client, "number": number}))
        if not reader:
            time.sleep(command["hasty"])
            reader = listen()
            self.calls[name] = (writer, reader)
        while time.monotonic() < deadline:
            for answer in reader.take(N=100):
                if getattr(answer, "client", None) == client and answer.number == number:
                    return plain(answer)
            time.sleep(0.002)
        return None

    def graph(self, command):
        """What the graph tells of nodes, by participant, and the endpoints that are there."""
        if self.nodes is None:
            qos = quality({"reliable": True, "latched": True, "depth": 100})
            topic = self.topic("ros_discovery_info", ParticipantEntitiesInfo)
            self.nodes = DataReader(self.participant, topic, qos=qos)
        infos = {}
        deadline = time.monotonic() + command.get("timeout", 10)
        while not infos and time.monotonic() < deadline:
            time.sleep(0.05)
            for info in self.nodes.read(N=1000):
                if is_alive(info) and type(info).__name__ != "InvalidSample":
                    infos[bytes(info.gid.data).hex()] = [plain_node(n) for n in info.node_entities_info_seq]
        endpoints = {}
        for which, reader in (("writers", self.publications), ("readers", self.subscriptions)):
            endpoints[which] = {
                e.key.hex: [e.topic_name, e.type_name, e.participant_key.hex, user_data(e.qos)]
                for e in reader.read(N=1000)
                if is_alive(e)
            }
        return {"nodes": infos, **endpoints}

    def memory(self, _):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    peer = Peer(int(sys.argv[1]))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"ok": getattr(peer, command["op"])(command)}
        except Exception as error:  # the test says what failed
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
