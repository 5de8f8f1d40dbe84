/* Detects in the frames of a text file and prints each detection with the bits of its numbers.
 * Arguments: a parameter file, the name of the channel, the file of frames (see recordings.rs). */

#include <det_post.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FIELDS 32

static void check(det_post_status status, uint64_t id)
{
    if (status != DET_POST_OK) {
        char message[4096];
        det_post_error_message(id, message, sizeof message);
        fprintf(stderr, "%s: %s\n", det_post_status_name(status), message);
        exit(1);
    }
}

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "the file of frames: %s\n", what);
        exit(2);
    }
}

static uint32_t bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void print(const float *values, size_t num)
{
    for (size_t i = 0; i < num; ++i) {
        printf(" %08x", bits(values[i]));
    }
}

static void print_found(const det_post_detections *found)
{
    printf("%lld %s %zu\n", (long long)found->stamp_ns, found->frame_id, found->num_detections);
    for (size_t i = 0; i < found->num_detections; ++i) {
        if (found->kind == DET_POST_DETECTIONS_2D) {
            const det_post_detection_2d *box = &found->boxes_2d[i];
            printf("%u", box->class_id);
            print(&box->score, 5);
        } else {
            const det_post_detection_3d *box = &found->boxes_3d[i];
            printf("%u", box->class_id);
            print(&box->score, 8);
            if (box->has & DET_POST_HAS_VELOCITY) {
                print(box->velocity_mps, 2);
            }
        }
        printf("\n");
    }
}

static uint8_t *read_bytes(FILE *file, size_t num)
{
    uint8_t *bytes = malloc(num ? num : 1);
    require(fgetc(file) == '\n' && fread(bytes, 1, num, file) == num, "too few bytes");
    return bytes;
}

static void detect(det_post_detector detector, det_post_input *input)
{
    det_post_frame frame = {.inputs = input, .num_inputs = 1};
    const det_post_detections *found;
    check(det_post_detector_detect(detector, &frame, &found), detector.id);
    print_found(found);
}

static void image(det_post_detector detector, FILE *file)
{
    char frame_id[64], encoding[64];
    det_post_image image = {.encoding = encoding};
    det_post_input input = {.kind = DET_POST_INPUT_IMAGE, .frame_id = frame_id, .image = &image};
    long long stamp;
    size_t num;
    require(
        fscanf(file, "%lld %63s %u %u %zu %63s %zu", &stamp, frame_id, &image.width, &image.height,
               &image.step, encoding, &num) == 7, "an image");
    uint8_t *bytes = read_bytes(file, num);
    image.bytes = (det_post_bytes){bytes, num};
    input.stamp_ns = stamp;
    detect(detector, &input);
    free(bytes);
}

static void cloud(det_post_detector detector, FILE *file)
{
    char frame_id[64], names[MAX_FIELDS][64];
    det_post_point_field fields[MAX_FIELDS] = {{0}};
    det_post_cloud cloud = {.fields = fields};
    det_post_input input = {.kind = DET_POST_INPUT_CLOUD, .frame_id = frame_id, .cloud = &cloud};
    long long stamp;
    size_t num;
    require(
        fscanf(file, "%lld %63s %u %u %u %u %zu %zu", &stamp, frame_id, &cloud.width,
               &cloud.height, &cloud.point_step, &cloud.row_step, &cloud.num_fields, &num) == 8 &&
            cloud.num_fields <= MAX_FIELDS, "a cloud");
    for (size_t i = 0; i < cloud.num_fields; ++i) {
        fields[i].name = names[i];
        require(
            fscanf(file, "%63s %u %u %u", names[i], &fields[i].offset, &fields[i].datatype,
                   &fields[i].count) == 4, "a field");
    }
    uint8_t *bytes = read_bytes(file, num);
    cloud.bytes = (det_post_bytes){bytes, num};
    input.stamp_ns = stamp;
    detect(detector, &input);
    free(bytes);
}

static void transform(det_post_detector detector, FILE *file)
{
    char parent[64], child[64];
    det_post_transform transform = {.parent = parent, .child = child};
    double *t = transform.translation, *r = transform.rotation;
    long long stamp;
    require(
        fscanf(file, "%63s %63s %lld %u %lf %lf %lf %lf %lf %lf %lf", parent, child, &stamp,
               &transform.is_static, t, t + 1, t + 2, r, r + 1, r + 2, r + 3) == 11,
        "a transform");
    transform.stamp_ns = stamp;
    check(det_post_detector_add_transforms(detector, &transform, 1), detector.id);
}

int main(int argc, char **argv)
{
    require(argc == 4, "three arguments");
    const char *files[] = {argv[1]}, *overrides[] = {"device:=cpu"};
    det_post_configuration configuration = {
        .files = files, .num_files = 1, .overrides = overrides, .num_overrides = 1,
        .channel = argv[2]};
    det_post_detector detector;
    check(det_post_detector_open(&configuration, &detector), 0);
    FILE *file = fopen(argv[3], "rb");
    require(file != NULL, "cannot be read");
    char kind[16];
    while (fscanf(file, "%15s", kind) == 1) {
        if (strcmp(kind, "image") == 0) {
            image(detector, file);
        } else if (strcmp(kind, "cloud") == 0) {
            cloud(detector, file);
        } else {
            require(strcmp(kind, "transform") == 0, kind);
            transform(detector, file);
        }
    }
    fclose(file);
    const det_post_report *report;
    check(det_post_detector_report(detector, &report), detector.id);
    require(report->num_stages > 3 && strcmp(report->health, "good") == 0, "no stages");
    check(det_post_detector_close(detector), detector.id);
    return 0;
}
