/* Detects in the frames of a text file and prints each detection with the bits of its numbers.
 * Arguments: a parameter file, the name of the channel, the file of frames (see recordings.rs),
 * assignments of parameters. */

#include <det_post.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FIELDS 32
#define MAX_TENSORS 16

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

/* An input of a frame, with the memory that it points to. */
typedef struct {
    char frame_id[64], text[64], names[MAX_FIELDS][64];
    det_post_image image;
    det_post_compressed_image file;
    det_post_cloud cloud;
    det_post_point_field fields[MAX_FIELDS];
    det_post_tensor tensors[MAX_TENSORS];
    size_t shapes[MAX_TENSORS][8];
    uint8_t *bytes[MAX_TENSORS];
} memory;

static void image(FILE *file, det_post_input *input, memory *of)
{
    long long stamp;
    size_t num;
    require(
        fscanf(file, "%lld %63s %u %u %zu %63s %zu", &stamp, of->frame_id, &of->image.width,
               &of->image.height, &of->image.step, of->text, &num) == 7, "an image");
    of->bytes[0] = read_bytes(file, num);
    of->image.encoding = of->text;
    of->image.bytes = (det_post_bytes){of->bytes[0], num};
    input->kind = DET_POST_INPUT_IMAGE;
    input->stamp_ns = stamp;
    input->image = &of->image;
}

static void compressed(FILE *file, det_post_input *input, memory *of)
{
    long long stamp;
    size_t num;
    require(
        fscanf(file, "%lld %63s %63s %zu", &stamp, of->frame_id, of->text, &num) == 4, "a file");
    of->bytes[0] = read_bytes(file, num);
    of->file = (det_post_compressed_image){of->text, {of->bytes[0], num}};
    input->kind = DET_POST_INPUT_COMPRESSED_IMAGE;
    input->stamp_ns = stamp;
    input->compressed_image = &of->file;
}

static void cloud(FILE *file, det_post_input *input, memory *of)
{
    det_post_cloud *cloud = &of->cloud;
    long long stamp;
    size_t num;
    require(
        fscanf(file, "%lld %63s %u %u %u %u %zu %zu", &stamp, of->frame_id, &cloud->width,
               &cloud->height, &cloud->point_step, &cloud->row_step, &cloud->num_fields, &num) ==
                8 && cloud->num_fields <= MAX_FIELDS, "a cloud");
    for (size_t i = 0; i < cloud->num_fields; ++i) {
        det_post_point_field *field = &of->fields[i];
        field->name = of->names[i];
        require(
            fscanf(file, "%63s %u %u %u", of->names[i], &field->offset, &field->datatype,
                   &field->count) == 4, "a field");
    }
    of->bytes[0] = read_bytes(file, num);
    cloud->fields = of->fields;
    cloud->bytes = (det_post_bytes){of->bytes[0], num};
    input->kind = DET_POST_INPUT_CLOUD;
    input->stamp_ns = stamp;
    input->cloud = cloud;
}

static void tensors(FILE *file, det_post_input *input, memory *of)
{
    long long stamp;
    require(
        fscanf(file, "%lld %63s %zu", &stamp, of->frame_id, &input->num_tensors) == 3 &&
            input->num_tensors <= MAX_TENSORS, "tensors");
    for (size_t i = 0; i < input->num_tensors; ++i) {
        det_post_tensor *tensor = &of->tensors[i];
        size_t num;
        require(
            fscanf(file, "%63s %u %u %zu", of->names[i], &tensor->element, &tensor->rank, &num) ==
                    4 && tensor->rank <= 8, "a tensor");
        for (uint32_t k = 0; k < tensor->rank; ++k) {
            require(fscanf(file, "%zu", &of->shapes[i][k]) == 1, "a shape");
        }
        of->bytes[i] = read_bytes(file, num);
        tensor->name = of->names[i];
        tensor->shape = of->shapes[i];
        tensor->bytes = (det_post_bytes){of->bytes[i], num};
    }
    input->kind = DET_POST_INPUT_TENSORS;
    input->stamp_ns = stamp;
    input->tensors = of->tensors;
}

/* Detects in a frame: the number of its inputs, then the inputs. */
static void frame(det_post_detector detector, FILE *file)
{
    det_post_frame frame = {0};
    require(fscanf(file, "%zu", &frame.num_inputs) == 1 && frame.num_inputs <= 16, "a frame");
    det_post_input *inputs = calloc(frame.num_inputs, sizeof *inputs);
    memory *of = calloc(frame.num_inputs, sizeof *of);
    require(inputs && of, "memory");
    frame.inputs = inputs;
    for (size_t i = 0; i < frame.num_inputs; ++i) {
        char kind[16];
        require(fscanf(file, "%15s", kind) == 1, "an input");
        inputs[i].frame_id = of[i].frame_id;
        if (strcmp(kind, "image") == 0) {
            image(file, &inputs[i], &of[i]);
        } else if (strcmp(kind, "compressed") == 0) {
            compressed(file, &inputs[i], &of[i]);
        } else if (strcmp(kind, "cloud") == 0) {
            cloud(file, &inputs[i], &of[i]);
        } else if (strcmp(kind, "tensors") == 0) {
            tensors(file, &inputs[i], &of[i]);
        } else {
            require(strcmp(kind, "none") == 0, kind);
        }
    }
    const det_post_detections *found;
    check(det_post_detector_detect(detector, &frame, &found), detector.id);
    print_found(found);
    for (size_t i = 0; i < frame.num_inputs; ++i) {
        for (size_t k = 0; k < MAX_TENSORS; ++k) {
            free(of[i].bytes[k]);
        }
    }
    free(inputs);
    free(of);
}

static void numbers(FILE *file, double *to, size_t num)
{
    for (size_t i = 0; i < num; ++i) {
        require(fscanf(file, "%lf", &to[i]) == 1, "a number");
    }
}

static void calibration(det_post_detector detector, FILE *file)
{
    char frame_id[64], model[64];
    double distortion[32];
    det_post_camera_calibration of = {
        .frame_id = frame_id, .distortion_model = model, .distortion = distortion};
    size_t input;
    require(
        fscanf(file, "%zu %63s %u %u %63s %zu", &input, frame_id, &of.width, &of.height, model,
               &of.num_distortion) == 6 && of.num_distortion <= 32, "a calibration");
    numbers(file, distortion, of.num_distortion);
    numbers(file, of.intrinsics, 9);
    numbers(file, of.rectification, 9);
    numbers(file, of.projection, 12);
    require(
        fscanf(file, "%u %u %u %u %u %u", &of.binning[0], &of.binning[1], &of.region[0],
               &of.region[1], &of.region[2], &of.region[3]) == 6, "a region");
    check(det_post_detector_set_calibration(detector, input, &of), detector.id);
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
    require(argc >= 4, "three arguments and overrides");
    const char *files[] = {argv[1]};
    det_post_configuration configuration = {
        .files = files, .num_files = 1, .overrides = (const char *const *)argv + 4,
        .num_overrides = (size_t)argc - 4, .channel = argv[2]};
    det_post_detector detector;
    check(det_post_detector_open(&configuration, &detector), 0);
    FILE *file = fopen(argv[3], "rb");
    require(file != NULL, "cannot be read");
    char kind[16];
    while (fscanf(file, "%15s", kind) == 1) {
        if (strcmp(kind, "frame") == 0) {
            frame(detector, file);
        } else if (strcmp(kind, "calibration") == 0) {
            calibration(detector, file);
        } else {
            require(strcmp(kind, "transform") == 0, kind);
            transform(detector, file);
        }
    }
    fclose(file);
    const det_post_report *report;
    check(det_post_detector_report(detector, &report), detector.id);
    require(report->num_stages > 0 && report->num_counters > 10, "stages and counters");
    require(strcmp(report->health, "good") == 0, report->health);
    check(det_post_detector_close(detector), detector.id);
    return 0;
}
