/* SQL from C: the shared object of the Python package as a driver of ADBC. Its path is the argument. It is loaded into
 * a program that has no interpreter. */

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arrow-adbc/adbc.h>

static struct AdbcDriver driver;

static void check(AdbcStatusCode status, struct AdbcError *error) {
    if (status != ADBC_STATUS_OK) {
        fprintf(stderr, "status %d: %s\n", status, error->message ? error->message : "no message");
        exit(1);
    }
}

static void load(const char *path) {
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    AdbcDriverInitFunc init;
    /* ISO C has no cast from an object's pointer to a function's. */
    *(void **)&init = dlsym(object, "AdbcDriverInit");
    assert(init != NULL);
    struct AdbcError error = ADBC_ERROR_INIT;
    check(init(ADBC_VERSION_1_1_0, &driver, &error), &error);
}

/* Runs a statement that gives no rows, for each row of `values` if there are some, and says what has changed. */
static int64_t execute(struct AdbcConnection *connection, const char *sql, struct ArrowArray *values,
                       struct ArrowSchema *schema) {
    struct AdbcError error = ADBC_ERROR_INIT;
    struct AdbcStatement statement = {0};
    int64_t changed = -1;
    check(driver.StatementNew(connection, &statement, &error), &error);
    check(driver.StatementSetSqlQuery(&statement, sql, &error), &error);
    if (values != NULL) {
        check(driver.StatementBind(&statement, values, schema, &error), &error);
    }
    check(driver.StatementExecuteQuery(&statement, NULL, &changed, &error), &error);
    check(driver.StatementRelease(&statement, &error), &error);
    return changed;
}

static void keep_array(struct ArrowArray *array) { array->release = NULL; }
static void keep_schema(struct ArrowSchema *schema) { schema->release = NULL; }

/* Parameters are a column each; here it is one of integers. */
static void insert(struct AdbcConnection *connection) {
    static const int64_t cents[] = {20, 30, 40};
    const void *column_buffers[] = {NULL, cents};
    const void *row_buffers[] = {NULL};
    struct ArrowArray column = {
        .length = 3, .n_buffers = 2, .buffers = column_buffers, .release = keep_array};
    struct ArrowArray *columns[] = {&column};
    struct ArrowArray rows = {.length = 3,
                              .n_buffers = 1,
                              .buffers = row_buffers,
                              .n_children = 1,
                              .children = columns,
                              .release = keep_array};
    struct ArrowSchema field = {.format = "l", .name = "1", .release = keep_schema};
    struct ArrowSchema *fields[] = {&field};
    struct ArrowSchema schema = {
        .format = "+s", .name = "", .n_children = 1, .children = fields, .release = keep_schema};
    const char *sql = "INSERT INTO fruit VALUES ('plum', ?)";
    assert(execute(connection, sql, &rows, &schema) == 3);
}

/* Prints one column of integers, and gives their sum. */
static int64_t sum_of(struct ArrowArrayStream *stream) {
    int64_t sum = 0;
    for (;;) {
        struct ArrowArray batch;
        const int code = stream->get_next(stream, &batch);
        if (code != 0) {
            fprintf(stderr, "%s: %s\n", strerror(code), stream->get_last_error(stream));
            exit(1);
        }
        if (batch.release == NULL) {
            return sum;
        }
        const struct ArrowArray *column = batch.children[0];
        const int64_t *values = (const int64_t *)column->buffers[1] + column->offset;
        for (int64_t row = 0; row < column->length; row++) {
            printf("%" PRId64 " cents\n", values[row]);
            sum += values[row];
        }
        batch.release(&batch);
    }
}

static void query(struct AdbcConnection *connection) {
    struct AdbcError error = ADBC_ERROR_INIT;
    struct AdbcStatement statement = {0};
    struct ArrowArrayStream stream = {0};
    check(driver.StatementNew(connection, &statement, &error), &error);
    const char *sql = "SELECT cents FROM fruit WHERE cents > 20 ORDER BY cents";
    check(driver.StatementSetSqlQuery(&statement, sql, &error), &error);
    check(driver.StatementExecuteQuery(&statement, &stream, NULL, &error), &error);
    struct ArrowSchema schema;
    assert(stream.get_schema(&stream, &schema) == 0);
    assert(schema.n_children == 1 && strcmp(schema.children[0]->format, "l") == 0);
    schema.release(&schema);
    assert(sum_of(&stream) == 70);
    stream.release(&stream);
    check(driver.StatementRelease(&statement, &error), &error);
}

/* An error has a status and a message. */
static void fail(struct AdbcConnection *connection) {
    struct AdbcError error = ADBC_ERROR_INIT;
    struct AdbcStatement statement = {0};
    struct ArrowArrayStream stream = {0};
    check(driver.StatementNew(connection, &statement, &error), &error);
    check(driver.StatementSetSqlQuery(&statement, "SELECT * FROM nowhere", &error), &error);
    const AdbcStatusCode status = driver.StatementExecuteQuery(&statement, &stream, NULL, &error);
    assert(status != ADBC_STATUS_OK && strstr(error.message, "nowhere") != NULL);
    printf("status %d: %s\n", status, error.message);
    error.release(&error);
    check(driver.StatementRelease(&statement, &error), &error);
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: %s DRIVER\n", arguments[0]);
        return 2;
    }
    load(arguments[1]);
    struct AdbcError error = ADBC_ERROR_INIT;
    struct AdbcDatabase database = {0};
    struct AdbcConnection connection = {0};
    check(driver.DatabaseNew(&database, &error), &error);
    /* The far memory of a published machine, modelled, so that this runs everywhere. */
    check(driver.DatabaseSetOption(&database, "nearfar.profile", "cxl-blades-4", &error), &error);
    check(driver.DatabaseInit(&database, &error), &error);
    check(driver.ConnectionNew(&connection, &error), &error);
    check(driver.ConnectionInit(&connection, &database, &error), &error);
    execute(&connection, "CREATE TABLE fruit (name VARCHAR, cents BIGINT)", NULL, NULL);
    insert(&connection);
    execute(&connection, "ALTER TABLE fruit SET TABLESPACE far", NULL, NULL);
    query(&connection);
    fail(&connection);
    check(driver.ConnectionRelease(&connection, &error), &error);
    check(driver.DatabaseRelease(&database, &error), &error);
    check(driver.release(&driver, &error), &error);
    return 0;
}
