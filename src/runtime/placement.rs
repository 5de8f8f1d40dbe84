//! Which of several GPUs runs a channel whose device is `auto`.

use crate::config::ChannelConfig;
use det_post_ops::device::Device;
use det_post_types::DeviceChoice;

/// Places the channels whose device is `auto` on the GPUs of this machine, if there are
/// several: [`place`] on those that are usable. With one or none, `auto` remains.
///
/// Returns the GPUs that it opened, to be kept until the channels are open.
#[must_use = "GPUs that are closed take half a second to open again"]
pub fn place_on_gpus(channels: &mut [ChannelConfig]) -> Vec<Device> {
    if channels.iter().all(|channel| channel.device != DeviceChoice::Auto) {
        return Vec::new();
    }
    let gpus = Device::usable_gpus();
    let number = |gpu: &Device| match gpu.choice() {
        DeviceChoice::Cuda(number) => Some(number),
        _ => None,
    };
    let numbers: Vec<u32> = gpus.iter().filter_map(number).collect();
    if numbers.len() >= 2 {
        place(channels, &numbers);
        for ChannelConfig { name, device, gpu_load, .. } in channels {
            tracing::info!("channel {name} (load {gpu_load}) runs on {device}");
        }
    }
    gpus
}

/// Places the channels whose device is `auto`: the one with the largest
/// [`gpu_load`](ChannelConfig::gpu_load) first, each on the GPU with the smallest sum so far. Of
/// equal loads the channel that is configured first comes first, of equal sums the GPU with the
/// lowest number. Channels with a GPU of their own count there.
///
/// The result depends only on the configuration and the numbers of the GPUs.
pub fn place(channels: &mut [ChannelConfig], gpus: &[u32]) {
    let mut loads: Vec<(f64, u32)> = gpus.iter().map(|gpu| (0.0, *gpu)).collect();
    let mut open = vec![];
    for channel in channels {
        let load = f64::from(channel.gpu_load);
        if channel.device == DeviceChoice::Auto {
            open.push((load, channel));
        } else if let Some((sum, _)) =
            loads.iter_mut().find(|(_, gpu)| channel.device == DeviceChoice::Cuda(*gpu))
        {
            *sum += load;
        }
    }
    open.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (load, channel) in open {
        let lightest = loads.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let Some((sum, gpu)) = lightest else { return };
        *sum += load;
        channel.device = DeviceChoice::Cuda(*gpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Channels of these heads; `more` are further parameters.
    fn channels(heads: &[(&str, &str)], more: &[&str]) -> Vec<ChannelConfig> {
        let mut parameters: Vec<String> = more.iter().map(|&text| text.to_owned()).collect();
        for (name, head) in heads {
            parameters.push(format!("{name}.head:={head}"));
            parameters.push(format!("{name}.input:=/{name}"));
            parameters.push(format!("{name}.model_path:=m"));
            if head.contains("centerpoint") {
                parameters.push(format!("{name}.encoder_path:=e"));
            }
        }
        Config::load(&[], &parameters).unwrap().channels
    }

    fn placed(mut channels: Vec<ChannelConfig>, gpus: &[u32]) -> Vec<(String, DeviceChoice)> {
        place(&mut channels, gpus);
        channels.into_iter().map(|channel| (channel.name, channel.device)).collect()
    }

    fn on(name: &str, gpu: u32) -> (String, DeviceChoice) {
        (name.to_owned(), DeviceChoice::Cuda(gpu))
    }

    #[test]
    fn twelve_cameras_are_shared_equally() {
        let names: Vec<String> = (0..12).map(|number| format!("c{number:02}")).collect();
        let heads: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "yolov5")).collect();
        let channels = channels(&heads, &[]);
        for num_gpus in [1, 2, 3, 4] {
            let gpus: Vec<u32> = (0..num_gpus).collect();
            let placed = placed(channels.clone(), &gpus);
            for gpu in gpus {
                let here = placed.iter().filter(|(_, device)| *device == DeviceChoice::Cuda(gpu));
                assert_eq!(here.count() as u32, 12 / num_gpus);
            }
        }
    }

    #[test]
    fn large_loads_come_first_and_fixed_devices_count() {
        let heads = [("a", "yolov5"), ("b", "yolov5"), ("lidar", "centerpoint_autoware")];
        // The cloud, which has twice the load, has a GPU; both cameras share the other GPU.
        let expected = [on("a", 1), on("b", 1), on("lidar", 0)];
        assert_eq!(placed(channels(&heads, &[]), &[0, 1]), expected);
        // A stated load.
        let more = ["a.gpu_load:=5.0"];
        let expected = [on("a", 0), on("b", 1), on("lidar", 1)];
        assert_eq!(placed(channels(&heads, &more), &[0, 1]), expected);
        // Channels with a separate device stay there. GPU 0 is not usable.
        let more = ["lidar.device:=cuda:1", "b.device:=cpu"];
        let found = placed(channels(&heads, &more), &[1, 2]);
        assert_eq!(found, [on("a", 2), ("b".into(), DeviceChoice::Cpu), on("lidar", 1)]);
        assert_eq!(placed(channels(&heads[..1], &[]), &[]), [("a".into(), DeviceChoice::Auto)]);
    }
}
