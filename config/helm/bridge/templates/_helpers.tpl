{{- define "bridge.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "bridge.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bridge.labels" -}}
{{ include "bridge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "bridge.headless" -}}
{{ include "bridge.name" . }}-nodes
{{- end }}

{{- /* The name of a pod, as clients and Prometheus find it. */ -}}
{{- define "bridge.podHost" -}}
$(POD_NAME).{{ include "bridge.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- define "bridge.listeners" -}}
{{- $all := list }}{{ range .Values.listeners }}{{ $all = append $all (printf "%s://0.0.0.0:%d" .name (int .port)) }}{{ end }}{{ join "," $all }}
{{- end }}

{{- define "bridge.advertised" -}}
{{- $root := . }}{{ $all := list }}
{{- range .Values.listeners }}
{{- $address := .advertised | default (printf "%s:%d" (include "bridge.podHost" $root) (int .port)) }}
{{- $all = append $all (printf "%s://%s" .name $address) }}
{{- end }}{{ join "," $all }}
{{- end }}

{{- define "bridge.protocols" -}}
{{- $all := list }}{{ range .Values.listeners }}{{ $all = append $all (printf "%s:%s" .name .protocol) }}{{ end }}{{ join "," $all }}
{{- end }}
